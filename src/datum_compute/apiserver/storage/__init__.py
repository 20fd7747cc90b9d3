"""Where objects are kept.

:mod:`.protocol` is what the rest of the server may use. Every other module here is an engine,
named as itself, with the functions of :class:`.protocol.Engine`; :mod:`.sqlite` is the only
one. Nothing here knows kinds, requests or HTTP.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from datum_compute.apiserver.storage.protocol import Engine, Store
    from datum_compute.env import Environment

ENGINES = tuple(each.name for each in iter_modules(__path__) if each.name != "protocol")
"""Every engine by name."""


def find_engine(name: str) -> Engine:
    """``name`` is one of :data:`ENGINES`."""
    return cast("Engine", import_module(f"{__name__}.{name}"))


def open_store(engine: str, env: Environment, path: str) -> Store:
    """The store at a path, created where nothing was ever stored. Raises StoreRefused."""
    return find_engine(engine).open_store(env, path)
