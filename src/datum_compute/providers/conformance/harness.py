"""What a check is given, and what all checks use."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Network
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.providers.protocol import ExecSource, LogSource

STEP_SECONDS = 0.25

Body = dict[str, Any]


class ConformanceFailure(AssertionError):
    """The provider breaks the contract; the message names the rule."""


class Capability(Enum):
    """What not every provider has."""

    PROCESSES = "Instances are processes: commands, variables, exit codes, limits"
    LOGS = "the lines that Instances write can be read"
    COMMANDS = "commands can be run in an Instance"
    ADDRESSES = "a running Instance has an address"
    SUBNETS = "addresses are of the Subnet of the network"
    PUBLISHED = "declared ports answer at an external address"
    ENGINE = "what runs the Instances can be away while the provider runs"
    CAPACITY = "the site has a size, and an Instance can be too large for it"
    VIRTUAL_MACHINES = "virtual machines run"
    DISKS = "volumes can be disks"
    SLEEP = "an idle Instance sleeps, and a connection wakes it"
    KEPT = "a stopped Instance keeps its address and files"
    PRIVATE_IMAGES = "images are pulled, also from registries that ask for a password"


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a provider lacks a capability, and how it shows that to users."""

    reason: str
    shown: Callable[[Harness], Awaitable[None]]
    """Raises ``ConformanceFailure`` unless the provider shows it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How to have an Instance fail for one reason, and what its message must contain."""

    apply: Callable[[Body], None]
    words: str


@dataclass(frozen=True, slots=True)
class ObservedContainer:
    """One container of an Instance, as what runs it describes it, running or ended."""

    id: str
    """Another one when it is made anew."""
    container: str
    image: str
    running: bool
    started_at: str = ""
    """Another one after each start."""
    millicores: int = 0
    memory_bytes: int = 0
    description: str = ""
    """All that is known of it, to look for what must not be there."""


@dataclass(frozen=True, slots=True)
class PrivateImage:
    """An image that only those who know the password can pull."""

    reference: str
    registry: str
    username: str
    password: str


@dataclass(kw_only=True)
class Harness(ABC):
    """A cell in which one provider runs, and the means to see and disturb what it runs."""

    client: Client
    provider: str
    """Its name, from which its finalizer follows."""
    image: str
    """Prints a line, then serves HTTP on port 80; it has ``/bin/sh``, and no entrypoint."""
    namespace: str = "default"
    timeout_seconds: float = 60.0
    """Within which an Instance must be Available, or deleted."""
    settle_seconds: float = 5.0
    """How long to wait where nothing must happen."""
    retry_seconds: float = 0.0
    """After which the provider tries again what failed."""
    subnet: IPv4Network | None = None
    """A range that is free, for checks of :data:`Capability.SUBNETS`."""
    lacks: Mapping[Capability, Lack] = field(default_factory=dict)

    @property
    def finalizer(self) -> str:
        return compute.provider_finalizer(self.provider)

    @abstractmethod
    async def start(self) -> None:
        """Start a provider on the cell."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the provider; what it runs goes on."""

    @abstractmethod
    async def running(self, uid: str) -> Sequence[ObservedContainer]:
        """What is there of this Instance, asked of what runs it."""

    @abstractmethod
    def logs(self) -> LogSource: ...

    # A harness implements the following unless it declares that the capability is lacking.

    def commands(self) -> ExecSource:
        raise NotImplementedError

    async def kill(self, uid: str, container: str) -> None:
        """Kill the container's process."""
        raise NotImplementedError

    async def discard(self, uid: str) -> None:
        """Remove what runs the Instance, as an operator would by hand."""
        raise NotImplementedError

    def away(self) -> AbstractAsyncContextManager[None]:
        """What runs the Instances does not answer inside."""
        raise NotImplementedError

    async def answer(self, address: str, port: int) -> str:
        """The body of ``GET /``; raises ``OSError`` where nothing answers."""
        raise NotImplementedError

    def private_image(self) -> AbstractAsyncContextManager[PrivateImage]:
        """The same image as :attr:`image`, in a registry that is there inside."""
        raise NotImplementedError

    def failure(self, reason: str) -> Failure:
        """As real runtimes fail."""
        return FAILURES[reason]

    async def restart(self) -> None:
        await self.stop()
        await self.start()


Promise = Callable[[Harness], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    promise: Promise
    needs: tuple[Capability, ...]
    slow: bool
    """Whether it takes more than half a minute on a real engine."""

    async def __call__(self, cell: Harness) -> None:
        for capability in self.needs:
            if lack := cell.lacks.get(capability):
                expect(bool(lack.reason), f"no reason is given for lacking {capability}")
                await lack.shown(cell)
                return
        await self.promise(cell)


def promise(*needs: Capability, slow: bool = False) -> Callable[[Promise], Check]:
    return lambda function: Check(function, needs, slow)


def title(check: Check) -> str:
    """For test ids."""
    return getattr(check.promise, "__name__", repr(check))


# Instances.


def build_instance(
    cell: Harness,
    name: str,
    *,
    gates: Sequence[str] = (),
    template_hash: str = "hash",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    container: Mapping[str, Any] | None = None,
    others: Sequence[Mapping[str, Any]] = (),
    change: Callable[[Body], None] | None = None,
) -> Body:
    """An Instance of one container, with ``container`` merged into it, and of ``others``."""
    image = {"image": cell.image}
    body: Body = {
        "apiVersion": compute.INSTANCES.api_version,
        "kind": compute.INSTANCES.kind,
        "metadata": {
            "name": name,
            "namespace": cell.namespace,
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
            "finalizers": list(finalizers),
        },
        "spec": {
            "runtime": {
                "resources": {"instanceType": compute.INSTANCE_TYPE_D1_STANDARD_2},
                "sandbox": {
                    "containers": [
                        {"name": "app", **image, **(container or {})},
                        *({**image, **each} for each in others),
                    ]
                },
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            "controller": {
                "templateHash": template_hash,
                "schedulingGates": [{"name": gate} for gate in gates],
            },
        },
    }
    if change is not None:
        change(body)
    return body


async def create(cell: Harness, name: str, **details: Any) -> Object:
    body = build_instance(cell, name, **details)
    return await cell.client.create(compute.INSTANCES, body, cell.namespace)


async def read(cell: Harness, name: str) -> Object:
    return await cell.client.get(compute.INSTANCES, name, cell.namespace)


async def delete(cell: Harness, name: str) -> None:
    await cell.client.delete(compute.INSTANCES, name, cell.namespace)


async def patch(cell: Harness, name: str, body: Mapping[str, Any], subresource: str = "") -> Object:
    return await cell.client.patch(
        compute.INSTANCES, name, merge(body), cell.namespace, subresource=subresource
    )


async def set_gates(cell: Harness, name: str, gates: Sequence[str]) -> None:
    wanted = [{"name": gate} for gate in gates]
    await patch(cell, name, {"spec": {"controller": {"schedulingGates": wanted}}})


def shell(script: str) -> Body:
    """A container whose process is this script."""
    return {"command": ["/bin/sh", "-c", script]}


def condition(obj: Object, kind: str) -> conditions.ConditionState:
    found = conditions.find(obj.view(compute.Instance).status.conditions, kind)
    return conditions.ConditionState.of(found) if found else conditions.ConditionState("", "", "")


def available(obj: Object) -> conditions.ConditionState:
    return condition(obj, compute.CONDITION_AVAILABLE)


def addresses(obj: Object) -> tuple[str, str]:
    """The address on the network and the external one; empty where there is none."""
    for interface in obj.view(compute.Instance).status.network_interfaces:
        return interface.assignments.network_ip or "", interface.assignments.external_ip or ""
    return "", ""


# Waiting.


async def wait(
    cell: Harness, holds: Callable[[], Awaitable[bool]], missing: str | Callable[[], str]
) -> None:
    deadline = asyncio.get_running_loop().time() + cell.timeout_seconds
    while not await holds():
        if asyncio.get_running_loop().time() >= deadline:
            raise ConformanceFailure(missing if isinstance(missing, str) else missing())
        await asyncio.sleep(STEP_SECONDS)


async def settle(cell: Harness) -> None:
    await asyncio.sleep(cell.settle_seconds)


async def wait_available(cell: Harness, name: str) -> Object:
    found = conditions.ConditionState("", "", "")

    async def holds() -> bool:
        nonlocal found
        found = available(await read(cell, name))
        return found.status == conditions.TRUE

    await wait(cell, holds, lambda: f"{name} is not Available: {found.reason}: {found.message}")
    return await read(cell, name)


async def wait_failure(cell: Harness, name: str, reason: str) -> conditions.ConditionState:
    async def holds() -> bool:
        found = available(await read(cell, name))
        return (found.status, found.reason) == (conditions.FALSE, reason)

    await wait(cell, holds, f"{name} does not report {reason}")
    return available(await read(cell, name))


async def wait_deleted(cell: Harness, name: str) -> None:
    async def holds() -> bool:
        try:
            await read(cell, name)
        except errors.NotFound:
            return True
        return False

    await wait(cell, holds, f"{name} is not deleted")


async def run(cell: Harness, name: str, **details: Any) -> Object:
    """Create an Instance and wait until it is Available."""
    await create(cell, name, **details)
    return await wait_available(cell, name)


async def remove(cell: Harness, name: str) -> None:
    await delete(cell, name)
    await wait_deleted(cell, name)


async def ids(cell: Harness, uid: str) -> list[str]:
    """Of what runs of this Instance, in the order of the containers' names."""
    found = sorted(await cell.running(uid), key=lambda each: each.container)
    return [each.id for each in found if each.running]


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConformanceFailure(otherwise)


def _first(body: Body) -> Body:
    found: Body = body["spec"]["runtime"]["sandbox"]["containers"][0]
    return found


MISSING_IMAGE = "localhost/no-such-image:1"

FAILURES = {
    compute.REASON_IMAGE_UNAVAILABLE: Failure(
        lambda body: _first(body).update(image=MISSING_IMAGE), MISSING_IMAGE
    ),
    compute.REASON_CONFIGURATION_ERROR: Failure(
        lambda body: _first(body).update(command=["/no/such/program"]), "/no/such/program"
    ),
    compute.REASON_INSTANCE_CRASHING: Failure(
        lambda body: _first(body).update(shell("exit 3")), "3"
    ),
    compute.REASON_INSUFFICIENT_CAPACITY: Failure(
        lambda body: _first(body).update(resources={"limits": {"cpu": "4096"}}), "4096"
    ),
}
"""How to provoke each failure that every provider reports."""
