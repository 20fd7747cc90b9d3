"""The providers of this version: one record each.

A provider is its package and one record here; both assemblies, the manager's ``--provider``
and the local platform's status read the records. This is the only module that imports a
provider's package, and only when that provider is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from datum_compute.env import Environment
    from datum_compute.providers.protocol import RunnableProvider
    from datum_compute.runtime.fleet import Fleet

Host = Literal["local", "manager"]
"""A process that may run a provider: the local platform, or ``compute-manager``."""


class ProviderFactory(Protocol):
    def __call__(
        self, cell: Fleet, env: Environment, *, networking_enabled: bool
    ) -> RunnableProvider: ...


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    name: str
    load: Callable[[], ProviderFactory]
    """Imports the package."""
    hosts: tuple[Host, ...]
    summary: str
    """One line for the person who starts it."""


def _simulated() -> ProviderFactory:
    from datum_compute.providers.simulated import SimulatedProvider

    return SimulatedProvider


PROVIDERS = (
    ProviderRecord(
        "simulated", _simulated, ("local",), "instances are simulated: no container runs"
    ),
)
"""In order of preference: a host that is free to choose takes the first it may run."""


def providers_of(host: Host) -> tuple[ProviderRecord, ...]:
    """The providers this host may run."""
    return tuple(record for record in PROVIDERS if host in record.hosts)


def find(name: str) -> ProviderRecord:
    """Raises ``KeyError`` for an unknown name."""
    return {record.name: record for record in PROVIDERS}[name]
