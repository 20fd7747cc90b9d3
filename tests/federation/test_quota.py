"""Quota among many: denied and freed, raced for, lost sight of, and away for a day.

What takes a virtual day is shown for an hour with the ordinary tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.client.transport import Request, Response, Transport, close_stream
from datum_compute.platform.apiserver.storage import PlaneStore
from datum_compute.platform.apiserver.storage_table import Event, Table
from datum_compute.providers.simulated.behaviour import START_SECONDS
from datum_compute.runtime.patch import values
from datum_compute.testing.expectations import eventually
from datum_compute.testing.network import Direction
from tests.controllers.harness import condition, until
from tests.e2e.simulation import everywhere, nothing_left, workload
from tests.federation.stage import NAMESPACE, Stage, stage
from tests.lessons.lines import refusal

CELL = "compute-cell-dfw"
HOUR = 3600.0
A_WHILE = pytest.mark.parametrize(
    "seconds", [HOUR, pytest.param(24 * HOUR, marks=[pytest.mark.long, pytest.mark.timeout(300)])]
)


def named(
    name: str, minimum: int, *, image: str = "acme/web:1", cities: tuple[str, ...] = ("DFW",)
) -> dict[str, Any]:
    body = workload(image, minimum, cities)
    body["metadata"]["name"] = name
    return body


async def deploy(on: Stage, *args: Any, **more: Any) -> None:
    await on.project.create(compute.WORKLOADS, named(*args, **more), NAMESPACE)


async def scale(on: Stage, name: str, minimum: int) -> None:
    spec = {"spec": {"placements": named(name, minimum)["spec"]["placements"]}}
    await on.project.patch(compute.WORKLOADS, name, merge(spec), NAMESPACE)


async def ready(on: Stage, name: str = "", *planes: str) -> list[str]:
    """Names of the Instances that serve, of the workloads whose names begin so."""
    found = await everywhere(on, compute.INSTANCES, *(planes or ("cell/dfw",)))
    return sorted(
        obj.name
        for obj in found
        if obj.name.startswith(name) and condition(obj, "Ready") == ("True", "Available")
    )


async def serving(on: Stage, name: str, count: int, *, within: float = 300.0) -> None:
    async def look() -> str:
        found = await ready(on, name)
        return "" if len(found) == count else f"{found} serve"

    await eventually(f"{count} of {name} serve", look, within=within)


async def claims(on: Stage) -> list[Object]:
    return (await on.project.list(quota.RESOURCE_CLAIMS)).items


async def books_balance(on: Stage, count: int) -> str:
    """Whether exactly so many Instances serve and hold a claim, and the budget says so too."""
    serve = await ready(on, "", *(f"cell/{cell}" for cell in on.settings.cells))
    if len(serve) != count:
        return f"{len(serve)} serve: {serve}"
    held = sorted(each.name for each in await claims(on))
    if held != sorted(f"instance-{name}" for name in serve):
        return f"claims are {held}, and {serve} serve"
    for obj in (await on.project.list(quota.ALLOWANCE_BUCKETS)).items:
        bucket = obj.view(quota.AllowanceBucket)
        if bucket.spec.resource_type.endswith("/instances") and bucket.status.allocated != count:
            return f"the bucket says {bucket.status}"
    return ""


async def set_grant(on: Stage, instances: int) -> None:
    [grant] = (await on.project.list(quota.RESOURCE_GRANTS)).items
    allowances = values(grant.spec)["allowances"]
    for each in allowances:
        if each["resourceType"].endswith("/instances"):
            each["buckets"] = [{"amount": instances}]
    body = merge({"spec": {"allowances": allowances}})
    await on.project.patch(quota.RESOURCE_GRANTS, grant.name, body, grant.namespace)


@A_WHILE
async def test_denied_then_freed_recovers_by_itself_and_writes_nothing_meanwhile(
    seconds: float,
) -> None:
    async with stage(cities=("DFW",), grant={"instances": 2}) as on:
        await deploy(on, "web", 2)
        await serving(on, "web", 2)
        await deploy(on, "api", 1)
        await until(
            on.project,
            compute.INSTANCES,
            "api-default-dfw-0",
            NAMESPACE,
            lambda obj: condition(obj, "QuotaGranted") == ("False", "QuotaExceeded"),
        )
        await asyncio.sleep(300)
        assert await books_balance(on, 2) == "", "a denied claim is not kept"
        before = on.writes()
        await asyncio.sleep(seconds)
        assert on.writes() == before

        await scale(on, "web", 1)
        await serving(on, "api", 1, within=10)
        await asyncio.sleep(1)  # a bucket tells of more in use at most twice a second
        assert await books_balance(on, 2) == ""


# A grant that nobody hears of.


class Deaf:
    """No watch gets through, and those that are open break; everything else is answered."""

    def __init__(self) -> None:
        self.deaf = False

    def wrap(self, transport: Transport, process: str, plane: str) -> Transport:
        return _DeafTransport(self, transport) if process == CELL else transport


class _DeafTransport:
    def __init__(self, ears: Deaf, inner: Transport) -> None:
        self._ears = ears
        self._inner = inner

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        watching = "watch" in dict(request.query)
        if watching and self._ears.deaf:
            raise errors.ConnectFailed("nothing is heard")
        response = await self._inner.send(request, timeout=timeout)
        if not watching or response.stream is None:
            return response
        return Response(response.status, response.headers, stream=self._stream(response.stream))

    async def _stream(self, inner: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for chunk in inner:
                if self._ears.deaf:
                    raise errors.Disconnected("nothing is heard")
                yield chunk
        finally:
            await close_stream(inner)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(("age", "tier"), [(20, 1.0), (200, 15.0), (500, 60.0), (2000, 300.0)])
async def test_a_grant_that_arrives_while_every_watch_is_down_is_found_within_the_tier(
    age: float, tier: float
) -> None:
    ears = Deaf()
    async with stage(cities=("DFW",), grant={"instances": 0}, wrap=ears.wrap) as on:
        await deploy(on, "web", 1)
        await until(
            on.cell(),
            compute.INSTANCES,
            "web-default-dfw-0",
            on.hub_namespace,
            lambda obj: condition(obj, "QuotaGranted") == ("False", "QuotaExceeded"),
        )
        await asyncio.sleep(age)
        ears.deaf = True
        await set_grant(on, 1)
        # The tier to see that there is room and to ask, and a moment to look at the answer.
        await serving_gate(on, tier + 10)


async def serving_gate(on: Stage, within: float) -> None:
    await until(
        on.cell(),
        compute.INSTANCES,
        "web-default-dfw-0",
        on.hub_namespace,
        lambda obj: not obj.view(compute.Instance).gates,
        within=within,
    )


# Many at once.


class Storm:
    """Writes of our managers meet a conflict as often as not."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self.share = 0.5

    def wrap(self, transport: Transport, process: str, plane: str) -> Transport:
        return _StormyTransport(self, transport) if process.startswith("compute-") else transport

    def strikes(self, request: Request) -> bool:
        written = request.method in ("PATCH", "PUT", "DELETE")
        return written and self._chance.random() < self.share


class _StormyTransport:
    def __init__(self, storm: Storm, inner: Transport) -> None:
        self._storm = storm
        self._inner = inner

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        if self._storm.strikes(request):
            return refusal(409, "Conflict")
        return await self._inner.send(request, timeout=timeout)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_storm_of_conflicts_delays_and_loses_nothing(seed: int) -> None:
    storm = Storm(seed)
    async with stage(cities=("DFW",), grant={"instances": 4}, wrap=storm.wrap, seed=seed) as on:
        await deploy(on, "web", 3)
        await deploy(on, "api", 3)
        await serving(on, "", 4)
        assert on.witness is not None
        assert on.witness.broken == []
        storm.share = 0.0
        await eventually("the books balance", lambda: books_balance(on, 4))
        await scale(on, "web", 1)
        await serving(on, "api", 3)
        await eventually("the books balance", lambda: books_balance(on, 4))


@dataclass(frozen=True)
class Race:
    racers: int
    slots: int

    async def start(self, on: Stage) -> None:
        for number in range(self.racers // 2):
            await deploy(on, f"racer{number}", 1, cities=("DFW", "LHR"))

    async def missing(self, on: Stage) -> str:
        found = await everywhere(on, compute.INSTANCES, "cell/dfw", "cell/lhr")
        if len(found) != self.racers:
            return f"{len(found)} Instances"
        return await books_balance(on, self.slots)

    async def is_won(self, on: Stage) -> None:
        await eventually("as many won as there are slots", lambda: self.missing(on), within=900)
        await asyncio.sleep(600)
        assert await self.missing(on) == ""

    async def finish(self, on: Stage) -> None:
        """Those that lost are served as slots become free; at the end no claim is left."""
        assert on.witness is not None
        assert on.witness.broken == []
        serve = {name.partition("-")[0] for name in await ready(on, "", "cell/dfw", "cell/lhr")}
        for name in sorted(serve)[:3]:
            await on.project.delete(compute.WORKLOADS, name, NAMESPACE)
        await asyncio.sleep(120)
        assert await books_balance(on, self.slots) == ""
        for obj in (await on.project.list(compute.WORKLOADS)).items:
            await on.project.delete(compute.WORKLOADS, obj.name, NAMESPACE)
        await eventually("nothing is left", lambda: nothing_left(on), within=900)
        assert on.witness.broken == []


FIFTY = Race(50, 10)


@pytest.mark.parametrize("race", [Race(16, 4), pytest.param(FIFTY, marks=pytest.mark.long)])
async def test_many_instances_race_for_few_slots_and_just_so_many_win(race: Race) -> None:
    async with stage(grant={"instances": race.slots}) as on:
        await race.start(on)
        await race.is_won(on)
        before = on.writes()
        await asyncio.sleep(HOUR)
        assert on.writes() == before
        await race.finish(on)


CRASHING = ("compute-cell-dfw", "compute-cell-lhr", "standin-quota", "compute-management")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 13))
async def test_ten_win_whoever_crashes_in_the_race(seed: int) -> None:
    async with stage(grant={"instances": FIFTY.slots}, seed=seed) as on:
        chance = Random(seed)
        await FIFTY.start(on)
        for _ in range(chance.randint(1, 5)):
            await asyncio.sleep(chance.choice((0.0, 0.02, 0.1, 0.5, 2.0)))
            process = on.parts[chance.choice(CRASHING)].process
            process.crash(chance.choice((0.0, 1.0, 20.0)))
        await FIFTY.is_won(on)
        await FIFTY.finish(on)


async def test_a_roll_at_full_quota_keeps_its_slots_beside_a_hungry_competitor() -> None:
    async with stage(cities=("DFW",), grant={"instances": 3}) as on:
        await deploy(on, "web", 3)
        await serving(on, "web", 3)
        await deploy(on, "api", 2)
        await asyncio.sleep(60)
        mine = {each.name: each.metadata.uid for each in await claims(on)}
        assert len(mine) == 3
        theirs: list[str] = []

        def changed(plane: PlaneStore, table: Table, event: Event) -> None:
            if table.resource == quota.RESOURCE_CLAIMS.group_resource:
                theirs.append(event.after.name)

        on.platform.store.listeners.append(changed)
        slow = named("web", 3, image="acme/web:2")
        slow["spec"]["template"]["metadata"] = {"annotations": {START_SECONDS: "20"}}
        await on.project.patch(compute.WORKLOADS, "web", merge({"spec": slow["spec"]}), NAMESPACE)
        await asyncio.sleep(300)

        found = await everywhere(on, compute.INSTANCES, "cell/dfw")
        images = {
            obj.name: values(obj.spec)["runtime"]["sandbox"]["containers"][0]["image"]
            for obj in found
            if obj.name.startswith("web-")
        }
        assert set(images.values()) == {"acme/web:2"}
        assert len(await ready(on, "web")) == 3
        assert {each.name: each.metadata.uid for each in await claims(on)} == mine
        assert theirs == [], "not a claim was made, changed or released"


@A_WHILE
@pytest.mark.parametrize("silent", [True, False], ids=["silent", "refused"])
async def test_quota_that_is_away_changes_no_condition_of_what_runs(
    silent: bool, seconds: float
) -> None:
    async with stage(cities=("DFW",)) as on:
        await deploy(on, "web", 2)
        await serving(on, "web", 2)
        await asyncio.sleep(60)
        planes = ("cell/dfw", "hub", "project/demo")

        async def shown() -> dict[tuple[str, str], Any]:
            return {
                (plane, obj.name): values(obj.status)["conditions"]
                for plane in planes
                for obj in await everywhere(on, compute.INSTANCES, plane)
                if obj.name.startswith("web")
            }

        before = await shown()
        assert len(before) == 6
        on.network.partition({CELL}, {"project/demo"}, silent=silent)
        await deploy(on, "api", 1)
        await asyncio.sleep(seconds)
        assert await shown() == before
        await on.restart(CELL)  # which then knows of no claim at all
        await asyncio.sleep(HOUR)
        assert await shown() == before
        [waits] = [
            obj
            for obj in await everywhere(on, compute.INSTANCES, "cell/dfw")
            if obj.name.startswith("api")
        ]
        assert waits.view(compute.Instance).gates == (compute.GATE_QUOTA,)
        on.network.heal()
        await serving(on, "api", 1, within=310)
        assert await shown() == before


async def test_a_kind_that_is_not_registered_is_told_and_heals_by_itself_once_it_is() -> None:
    """Whoever judges claims refuses to take them, so there is nothing to release."""
    async with stage(cities=("DFW",)) as on:
        root = on.client("root")
        registrations = (await root.list(quota.RESOURCE_REGISTRATIONS)).items
        [vcpus] = [
            obj for obj in registrations if values(obj.spec)["resourceType"].endswith("/vcpus")
        ]
        await root.delete(quota.RESOURCE_REGISTRATIONS, vcpus.name)
        await asyncio.sleep(5)
        await deploy(on, "web", 1)
        told = await until(
            on.project,
            compute.INSTANCES,
            "web-default-dfw-0",
            NAMESPACE,
            lambda obj: condition(obj, "QuotaGranted") == ("False", "QuotaMisconfigured"),
        )
        assert told.view(compute.Instance).gates == (compute.GATE_QUOTA,)
        await asyncio.sleep(700)
        before = on.writes()
        await asyncio.sleep(HOUR)
        assert on.writes() == before
        assert await claims(on) == []

        body = {"metadata": {"name": vcpus.name}, "spec": values(vcpus.spec)}
        await root.create(quota.RESOURCE_REGISTRATIONS, body)
        await serving(on, "web", 1, within=310)


async def test_a_claim_that_was_given_up_unheard_starts_nobody() -> None:
    """The cell's requests arrive, and nothing comes back: it holds for granted what it has
    itself given back, and what others may hold by now."""
    async with stage(cities=("DFW",)) as on:
        await deploy(on, "api", 1)
        await deploy(on, "web", 1)
        await serving(on, "", 2)
        cell, project = {CELL}, {"project/demo"}
        on.network.partition(cell, project, direction=Direction.BACK, silent=False)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)

        async def given_up() -> str:
            held = [each.name for each in await claims(on)]
            return "" if held == ["instance-api-default-dfw-0"] else f"claims are {held}"

        await eventually("given up", given_up)
        await eventually("gone", lambda: _gone(on, "web"))
        await deploy(on, "web", 1)
        await asyncio.sleep(30)
        [waits] = [
            obj
            for obj in await everywhere(on, compute.INSTANCES, "cell/dfw")
            if obj.name.startswith("web")
        ]
        assert waits.view(compute.Instance).gates == (compute.GATE_QUOTA,)
        on.network.heal()
        await serving(on, "web", 1)
        await eventually("true", lambda: books_balance(on, 2))


@pytest.mark.parametrize("silent", [True, False])
async def test_the_last_claim_in_a_project_that_was_away_is_given_up_on_contact(
    silent: bool,
) -> None:
    """Though by then nothing of the project is left in the cell to remind it."""
    async with stage(cities=("DFW",)) as on:
        await deploy(on, "web", 1)
        await serving(on, "web", 1)
        on.network.partition({CELL}, {"project/demo"}, silent=silent)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("gone", lambda: _gone(on, "web"))
        await asyncio.sleep(300)
        assert len(await claims(on)) == 1, "nobody could tell the project"
        on.network.heal()

        await eventually("given up", lambda: books_balance(on, 0))


async def _gone(on: Stage, name: str) -> str:
    try:
        await on.project.get(compute.WORKLOADS, name, NAMESPACE)
    except errors.NotFound:
        return ""
    return "it is there"


async def test_a_claim_that_arrives_when_its_instance_has_gone_is_given_up() -> None:
    """It was asked for, nobody heard the answer, and by now the project has nothing here."""
    async with stage(cities=("DFW",)) as on:
        await deploy(on, "web", 1)
        await serving(on, "web", 1)
        [claim] = await claims(on)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await eventually("destroyed", lambda: nothing_left(on))
        await asyncio.sleep(10)
        metadata = {"name": claim.name, "labels": dict(claim.metadata.labels)}
        body = {"metadata": metadata, "spec": values(claim.spec)}
        await on.project.create(quota.RESOURCE_CLAIMS, body, claim.namespace)

        await eventually("given up", lambda: books_balance(on, 0))
