"""The providers of this version: one record each.

A provider is its package and one record here. ``local up --runtime``, its stored settings, the
manager's ``--provider`` and both assemblies read the records. This is the only module that
imports a provider's package, and only when that provider is built.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any, Literal, Protocol

from datum_compute.providers.probe import Probe, Sample

if TYPE_CHECKING:
    from pathlib import Path

    from datum_compute.env import Environment
    from datum_compute.providers.protocol import RunnableProvider
    from datum_compute.runtime.fleet import Fleet
    from datum_compute.runtime.metrics.registry import MetricsRegistry

Host = Literal["local", "manager"]
"""A process that may run a provider: the local platform, or ``compute-manager``."""

AUTO = "auto"
"""The name that leaves the choice of a provider to its host."""


class RuntimeAway(Exception):
    """What a provider runs Instances on does not answer."""


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """All that a provider is built from; each cell gets a provider of its own."""

    cell_name: str
    cell: Fleet
    env: Environment
    networking: bool = True
    """Whether the cell has the networking kinds."""
    platform: str = ""
    """Marks what belongs to this platform, where several share a host."""
    metrics: MetricsRegistry | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the operator has set, by the names in the provider's record."""


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    name: str
    build: Callable[[ProviderContext], RunnableProvider]
    """Imports the package. Raises ``ValueError`` for a setting that is not allowed. A provider
    that holds connections is an async context manager: it is entered before its controllers
    start and left after they have ended."""
    hosts: tuple[Host, ...]
    summary: str
    """One line for the person who starts it."""
    settings: tuple[str, ...] = ()
    """The names of the settings it takes."""
    probe: Callable[[Environment], Coroutine[Any, Any, Probe]] | None = None
    """Whether it can run on this machine; None where it always can."""
    sample: Callable[[Environment], Coroutine[Any, Any, Sample | None]] | None = None
    """An image that can be had on this machine; None where none can, or any will do."""
    occupied_ranges: Callable[[Environment], Coroutine[Any, Any, list[IPv4Network]]] | None = None
    """Of a provider whose networks are real: the ranges that are taken on this machine."""
    build_image: BuildImage | None = None
    """Makes an image that it can run; None where it runs none."""
    claim_range: (
        Callable[[Environment, str, str, str, str, IPv4Network], Coroutine[Any, Any, bool]] | None
    ) = None
    """Takes a range for a Subnet, by the platform's mark, cell, namespace and name; False where
    something else on the machine has it. Raises :class:`RuntimeAway`."""
    end: Callable[[Environment, str, bool], Coroutine[Any, Any, int]] | None = None
    """Stops, or removes, what a platform that has ended left running, by the platform's mark;
    returns how many containers there were. Raises :class:`RuntimeAway`."""
    unserved: str = ""
    """Why its Instances cannot be connected to, where they cannot."""


class BuildImage(Protocol):
    def __call__(
        self,
        env: Environment,
        name: str,
        directory: Path,
        dockerfile: str | None,
        show: Callable[[str], None],
    ) -> Coroutine[Any, Any, str]:
        """Build the directory, and return the reference of the image. Raises ``BuildFailed``."""
        ...


def _simulated(context: ProviderContext) -> RunnableProvider:
    from datum_compute.providers.simulated import SimulatedProvider

    return SimulatedProvider(context.cell, context.env, networking_enabled=context.networking)


def _container(engine: str, context: ProviderContext) -> RunnableProvider:
    from datum_compute.providers.container import ContainerProvider

    return ContainerProvider(
        context.cell_name,
        context.cell,
        context.env,
        engine=engine,
        platform=context.platform,
        networking=context.networking,
        metrics=context.metrics,
    )


def _pod(context: ProviderContext) -> RunnableProvider:
    from datum_compute.providers.pod import PodProvider, PodSettings

    return PodProvider(context.cell, context.env, PodSettings.parse(context.settings))


async def _probe(engine: str, env: Environment) -> Probe:
    from datum_compute.providers.container import host

    return await host.probe(env, engine)


async def _sample(engine: str, env: Environment) -> Sample | None:
    from datum_compute.providers.container import host

    return await host.sample_image(env, engine)


async def _occupied_ranges(engine: str, env: Environment) -> list[IPv4Network]:
    from datum_compute.providers.container import host

    return await host.occupied_ranges(env, engine)


async def _claim_range(
    engine: str,
    env: Environment,
    platform: str,
    cell: str,
    namespace: str,
    subnet: str,
    range_: IPv4Network,
) -> bool:
    from datum_compute.providers.container import host
    from datum_compute.providers.container.engine import EngineRefused, EngineUnreachable

    try:
        return await host.claim_range(env, engine, platform, cell, namespace, subnet, range_)
    except (EngineRefused, EngineUnreachable) as error:
        raise RuntimeAway(str(error)) from error


async def _end(engine: str, env: Environment, platform: str, remove: bool) -> int:
    from datum_compute.providers.container import host
    from datum_compute.providers.container.engine import EngineRefused, EngineUnreachable

    try:
        return await host.end_containers(env, engine, platform, remove=remove)
    except (EngineRefused, EngineUnreachable) as error:
        raise RuntimeAway(str(error)) from error


async def _build_image(
    engine: str,
    env: Environment,
    name: str,
    directory: Path,
    dockerfile: str | None,
    show: Callable[[str], None],
) -> str:
    from datum_compute.providers.container.images import build

    return await build.build_image(env, engine, name, directory, dockerfile, show)


def _engine(name: str) -> ProviderRecord:
    return ProviderRecord(
        name,
        partial(_container, name),
        ("local",),
        f"instances are containers of {name}",
        probe=partial(_probe, name),
        sample=partial(_sample, name),
        occupied_ranges=partial(_occupied_ranges, name),
        build_image=partial(_build_image, name),
        claim_range=partial(_claim_range, name),
        end=partial(_end, name),
    )


PROVIDERS = (
    _engine("podman"),
    _engine("docker"),
    ProviderRecord(
        "simulated",
        _simulated,
        ("local",),
        "instances are simulated: no container runs",
        unserved="its instances are simulated, so nothing runs that could answer",
    ),
    ProviderRecord(
        "pod",
        _pod,
        ("manager",),
        "instances are pods of the cell's cluster",
        settings=("pod-security", "runtime-class", "node-selector", "tolerations"),
    ),
)
"""In order of preference: a host that is free to choose takes the first it can run."""


def providers_of(host: Host) -> tuple[ProviderRecord, ...]:
    """The providers this host may run."""
    return tuple(record for record in PROVIDERS if host in record.hosts)


async def choose(host: Host, env: Environment) -> tuple[ProviderRecord, list[Probe]]:
    """What :data:`AUTO` means on this machine, and what was found out on the way."""
    probes: list[Probe] = []
    for record in providers_of(host):
        if record.probe is None:
            return record, probes
        probes.append(await record.probe(env))
        if probes[-1].usable:
            return record, probes
    raise LookupError(f"no provider can run on this {host}")


def find(name: str) -> ProviderRecord:
    """Raises ``KeyError`` for an unknown name."""
    return {record.name: record for record in PROVIDERS}[name]
