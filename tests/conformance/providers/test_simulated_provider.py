"""The simulated provider passes the kit with and without networking; faulty ones fail it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import IPv4Network

import pytest

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers import conformance
from datum_compute.providers.conformance import (
    Capability,
    Check,
    ConformanceFailure,
    Failure,
    Harness,
    Lack,
    ObservedContainer,
    commands,
    failures,
    lifecycle,
    logs,
    networks,
    removal,
    suspension,
)
from datum_compute.providers.conformance.harness import addresses, expect, run
from datum_compute.providers.errors import Rejected
from datum_compute.providers.protocol import (
    AVAILABLE,
    PROGRAMMED,
    Addresses,
    InstanceReport,
    InstanceTarget,
    LogLine,
    LogSource,
    Provider,
)
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.providers.simulated.behaviour import CRASH_AFTER_SECONDS, FAIL
from datum_compute.runtime.manager import Manager
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import EmbeddedServer, embedded_server


class World:
    """What simulated Instances would run; it outlives the provider, as an engine does."""

    def __init__(self) -> None:
        self.runs: dict[str, ObservedContainer] = {}
        self.started = 0

    def run(self, key: str, instance: compute.Instance) -> None:
        if key in self.runs:
            return
        self.started += 1
        sandbox = instance.spec.runtime.sandbox
        name, image = "machine", ""
        if sandbox is not None:
            name, image = sandbox.containers[0].name, sandbox.containers[0].image
        self.runs[key] = ObservedContainer(str(self.started), name, image, running=True)


class WorldProvider(SimulatedProvider):
    """Records what it runs in the world."""

    def __init__(self, world: World, cell: SingleFleet, env: SimulatedEnvironment, net: bool):
        super().__init__(cell, env, networking_enabled=net)
        self.world = world

    def key(self, target: InstanceTarget) -> str:
        return target.uid

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        report = await super().ensure(target)
        if report.available.status == conditions.TRUE:
            self.world.run(self.key(target), target.instance)
            awake = report.asleep is None or report.asleep.status != conditions.TRUE
            found = self.world.runs[self.key(target)]
            self.world.runs[self.key(target)] = replace(found, running=awake)
        return report

    async def suspend(self, target: InstanceTarget) -> None:
        await super().suspend(target)
        self.world.runs.pop(self.key(target), None)

    async def remove(self, target: InstanceTarget) -> None:
        await super().remove(target)
        self.world.runs.pop(self.key(target), None)


async def no_container_runs(cell: Harness) -> None:
    uid = (await run(cell, "lines-0")).metadata.uid
    lines = [line.text async for line in cell.logs().lines(uid)]
    expect(any("no container runs" in line for line in lines), f"its lines are {lines}")


async def any_size_runs(cell: Harness) -> None:
    container = {"resources": {"limits": {"cpu": "4096"}}}
    await run(cell, "large-0", container=container)


async def no_external_address(cell: Harness) -> None:
    await networks.join(cell)
    container = networks.serves(80)
    found = addresses(await networks.start(cell, "inside-0", container=container))
    expect(not found[1], f"externalIP is {found[1]}")


async def no_address(cell: Harness) -> None:
    found = addresses(await run(cell, "nowhere-0"))
    expect(found == ("", ""), f"the addresses are {found}")


async def the_cell_is_enough(cell: Harness) -> None:
    await run(cell, "alone-0")


LACKS = {
    Capability.PROCESSES: Lack("nothing runs", no_container_runs),
    Capability.COMMANDS: Lack("nothing runs", commands.no_command_can_be_run),
    Capability.PRIVATE_IMAGES: Lack("nothing is pulled", no_container_runs),
    Capability.CAPACITY: Lack("nothing takes room", any_size_runs),
    Capability.PUBLISHED: Lack("nothing could answer", no_external_address),
    Capability.ENGINE: Lack("it depends on nothing but its cell", the_cell_is_enough),
}
NO_NETWORKS = {
    Capability.ADDRESSES: Lack("the cell has no networks", no_address),
    Capability.SUBNETS: Lack("the cell has no networks", no_address),
}


@dataclass(kw_only=True)
class SimulatedHarness(Harness):
    embedded: EmbeddedServer
    env: SimulatedEnvironment
    provider_type: type[WorldProvider] = WorldProvider
    networking: bool = True
    world: World = field(default_factory=World)
    task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        client = self.embedded.client("cell/dfw", "provider-dfw")
        cell = SingleFleet("cell", "single", client, self.env)
        self.runs = self.provider_type(self.world, cell, self.env, self.networking)
        manager = Manager("provider", self.env)
        manager.add(*self.runs.controllers())
        self.task = asyncio.create_task(manager.run())
        await manager.wait_ready()

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def running(self, uid: str) -> Sequence[ObservedContainer]:
        found = self.world.runs.get(uid)
        return [found] if found else []

    def logs(self) -> LogSource:
        return self.runs

    def failure(self, reason: str) -> Failure:
        how = {FAIL: reason}
        if reason == compute.REASON_INSTANCE_CRASHING:
            how = {CRASH_AFTER_SECONDS: "0"}
        return Failure(lambda body: body["metadata"]["annotations"].update(how), "simulated")


@asynccontextmanager
async def simulated_cell(
    provider_type: type[WorldProvider] = WorldProvider, *, networking: bool = True
) -> AsyncIterator[SimulatedHarness]:
    env = SimulatedEnvironment()
    async with embedded_server(env, cells=("dfw",)) as embedded:
        harness = SimulatedHarness(
            client=embedded.client("cell/dfw"),
            provider="simulated",
            image="registry.example/app:1",
            subnet=IPv4Network("10.128.0.0/20"),
            lacks=LACKS if networking else LACKS | NO_NETWORKS,
            embedded=embedded,
            env=env,
            provider_type=provider_type,
            networking=networking,
        )
        await harness.start()
        try:
            yield harness
        finally:
            await harness.stop()


@pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.title)
async def test_the_simulated_provider_passes_the_kit(check: Check) -> None:
    async with simulated_cell() as cell:
        await check(cell)


ABOUT_ADDRESSES = [check for check in conformance.CHECKS if set(check.needs) & NO_NETWORKS.keys()]


@pytest.mark.parametrize(
    "check",
    [lifecycle.a_restart_of_the_provider_disturbs_nothing, *ABOUT_ADDRESSES],
    ids=conformance.title,
)
async def test_the_simulated_provider_passes_the_kit_without_networking(check: Check) -> None:
    async with simulated_cell(networking=False) as cell:
        await check(cell)


def test_the_kit_has_no_two_checks_of_one_name() -> None:
    titles = [conformance.title(check) for check in conformance.CHECKS]

    assert len(titles) >= 60
    assert len(set(titles)) == len(titles)


# Planted faults.


class HidesFailures(WorldProvider):
    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        try:
            return await super().ensure(target)
        except Rejected:
            return InstanceReport(PROGRAMMED, AVAILABLE)


class AdoptsByName(WorldProvider):
    def key(self, target: InstanceTarget) -> str:
        """Of whichever Instance of this name was there first."""
        return next(
            (
                uid
                for uid, name in self.world_names.items()
                if name == target.instance.metadata.name
            ),
            target.uid,
        )

    @property
    def world_names(self) -> dict[str, str]:
        known: dict[str, str] = self.world.__dict__.setdefault("names", {})
        return known

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        report = await super().ensure(target)
        self.world_names.setdefault(self.key(target), target.instance.metadata.name)
        return report


class LeavesThings(WorldProvider):
    async def remove(self, target: InstanceTarget) -> None:
        await SimulatedProvider.remove(self, target)


class NeverStops(WorldProvider):
    async def suspend(self, target: InstanceTarget) -> None:
        await SimulatedProvider.suspend(self, target)


class LosesAddresses(WorldProvider):
    async def suspend(self, target: InstanceTarget) -> None:
        await super().suspend(target)
        self._interfaces.release(target.uid)


class StartsAfresh(WorldProvider):
    def __init__(self, world: World, cell: SingleFleet, env: SimulatedEnvironment, net: bool):
        super().__init__(world, cell, env, net)
        world.runs.clear()


class NeverSilent(WorldProvider):
    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        report = await super().ensure(target)
        state = conditions.ConditionState(
            conditions.TRUE, compute.REASON_AVAILABLE, f"up at {self._env.now()}"
        )
        return InstanceReport(report.programmed, state, report.interfaces, requeue_after=1.0)


class OneAddressForAll(WorldProvider):
    def _addresses(self, target: InstanceTarget) -> tuple[Addresses, ...]:
        return (Addresses("10.128.0.2"),)


class OneAtATime(WorldProvider):
    """Waits for one that fails, and never looks at the next."""

    failing = False

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        if self.failing:
            await asyncio.Event().wait()
        try:
            return await super().ensure(target)
        except Rejected:
            self.failing = True
            raise


class Undecided(WorldProvider):
    """Reports a failure and takes it back while it tries again."""

    tried = 0

    async def ensure(self, target: InstanceTarget) -> InstanceReport:
        self.tried += 1
        try:
            return await super().ensure(target)
        except Rejected as error:
            if self.tried % 2 == 0:
                return InstanceReport(PROGRAMMED, AVAILABLE, requeue_after=1.0)
            raise Rejected(error.reason, error.message, delay=1.0) from error


class EndlessLines(WorldProvider):
    """Never ends the lines of a deleted Instance, and ignores what is asked for."""

    async def lines(
        self,
        uid: str,
        *,
        tail: int | None = None,
        since: datetime | None = None,
        follow: bool = False,
    ) -> AsyncIterator[LogLine]:
        yield LogLine(datetime(2026, 1, 1, tzinfo=UTC), "hello")
        if follow:
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("provider_type", "check", "rule"),
    [
        (HidesFailures, failures.an_image_that_cannot_be_had_is_reported, "does not report"),
        (HidesFailures, failures.nothing_runs_of_what_cannot_run, "does not report"),
        (AdoptsByName, lifecycle.a_successor_never_adopts_what_its_predecessor_left, "of its own"),
        (LeavesThings, removal.a_deleted_instance_leaves_nothing, "are left"),
        (LeavesThings, removal.a_teardown_that_the_provider_did_not_finish_is_finished, "are left"),
        (NeverStops, suspension.a_stopped_instance_runs_nothing_until_it_is_started, "and runs"),
        (LosesAddresses, suspension.a_stopped_instance_keeps_its_address, "another"),
        (StartsAfresh, lifecycle.a_restart_of_the_provider_disturbs_nothing, "started again"),
        (NeverSilent, lifecycle.nothing_is_written_while_nothing_changes, "was written"),
        (OneAddressForAll, networks.each_instance_has_an_address_of_its_own, "addresses are"),
        (OneAtATime, lifecycle.an_instance_that_fails_does_not_hold_up_others, "not Available"),
        (Undecided, failures.a_failure_is_not_withdrawn_while_it_is_tried_again, "became"),
        (EndlessLines, logs.followed_lines_begin_with_the_first_and_end_with_the_instance, "end"),
        (EndlessLines, logs.tail_gives_the_last_lines, "tail"),
        (EndlessLines, logs.since_leaves_out_earlier_lines, "since"),
        (EndlessLines, logs.an_unknown_instance_has_no_lines, "does not exist"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
async def test_the_kit_finds_a_planted_fault(
    provider_type: type[WorldProvider], check: Check, rule: str
) -> None:
    async with simulated_cell(provider_type) as cell:
        with pytest.raises(ConformanceFailure, match=rule):
            await check(cell)


async def test_the_kit_fails_a_provider_that_does_nothing() -> None:
    async with simulated_cell() as cell:
        await cell.stop()
        with pytest.raises(ConformanceFailure, match="not Available"):
            await lifecycle.the_last_gate_starts_it(cell)


async def test_a_declared_lack_must_be_shown_by_the_provider() -> None:
    async with simulated_cell() as cell:
        refusal = Lack("it has no machines", failures.a_virtual_machine_is_refused)
        cell.lacks = LACKS | {Capability.VIRTUAL_MACHINES: refusal}
        with pytest.raises(ConformanceFailure, match="does not report ConfigurationError"):
            await failures.a_virtual_machine_runs(cell)


async def test_a_lack_without_a_reason_is_not_accepted() -> None:
    async with simulated_cell() as cell:
        cell.lacks = LACKS | {Capability.DISKS: Lack("", the_cell_is_enough)}
        with pytest.raises(ConformanceFailure, match="no reason"):
            await failures.an_instance_with_a_disk_runs(cell)


def test_the_simulated_provider_implements_the_protocol() -> None:
    env = SimulatedEnvironment()

    async def make() -> Provider:
        return SimulatedProvider(
            SingleFleet("cell", "single", None, env),  # type: ignore[arg-type]  # never asked
            env,
            networking_enabled=False,
        )

    assert asyncio.run(make()).name == "simulated"
    assert compute.provider_finalizer("simulated") == "simulated.compute.datumapis.com/finalizer"
