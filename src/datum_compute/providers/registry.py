"""The providers of this version: one record each.

A provider is its package and one record here. ``local up --runtime``, its stored settings, the
manager's ``--provider`` and both assemblies read the records. This is the only module that
imports a provider's package, and only when that provider is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datum_compute.env import Environment
    from datum_compute.providers.protocol import RunnableProvider
    from datum_compute.runtime.fleet import Fleet

Host = Literal["local", "manager"]
"""A process that may run a provider: the local platform, or ``compute-manager``."""

AUTO = "auto"
"""The name that leaves the choice of a provider to its host."""


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """All that a provider is built from; each cell gets a provider of its own."""

    cell_name: str
    cell: Fleet
    env: Environment
    networking: bool = True
    """Whether the cell has the networking kinds."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the operator has set, by the names in the provider's record."""


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    name: str
    build: Callable[[ProviderContext], RunnableProvider]
    """Imports the package. A provider that holds connections is an async context manager: it
    is entered before its controllers start and left after they have ended."""
    hosts: tuple[Host, ...]
    summary: str
    """One line for the person who starts it."""
    settings: tuple[str, ...] = ()
    """The names of the settings it takes."""
    is_usable: Callable[[Environment], bool] = lambda _: True
    """Whether it can run on this machine; asked where the choice is left to the host."""


def _simulated(context: ProviderContext) -> RunnableProvider:
    from datum_compute.providers.simulated import SimulatedProvider

    return SimulatedProvider(context.cell, context.env, networking_enabled=context.networking)


PROVIDERS = (
    ProviderRecord(
        "simulated", _simulated, ("local",), "instances are simulated: no container runs"
    ),
)
"""In order of preference: a host that is free to choose takes the first it can run."""


def providers_of(host: Host) -> tuple[ProviderRecord, ...]:
    """The providers this host may run."""
    return tuple(record for record in PROVIDERS if host in record.hosts)


def choose(host: Host, env: Environment) -> ProviderRecord:
    """What :data:`AUTO` means on this machine."""
    return next(record for record in providers_of(host) if record.is_usable(env))


def find(name: str) -> ProviderRecord:
    """Raises ``KeyError`` for an unknown name."""
    return {record.name: record for record in PROVIDERS}[name]
