"""A cell that is cut off, for a second or for a month, and what becomes of it on return.

While it is alone a cell keeps running what runs, removes what is no longer wanted there,
replaces nothing and starts nothing new; the project shows since when it is silent. When it is
back, everything is as the last wish says within a minute.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.assembly.local.cut import Cuts
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.providers.controller import provider_controller
from datum_compute.providers.protocol import AVAILABLE, PROGRAMMED, Report, Subject, failed
from datum_compute.providers.simulated import simulated_provider
from datum_compute.runtime.patch import values
from datum_compute.testing import loop
from datum_compute.testing.environment import START
from datum_compute.testing.expectations import eventually
from tests.controllers.harness import (
    World,
    condition,
    deployment,
    given_namespace,
    message,
    set_condition,
    until,
    world,
)
from tests.e2e.simulation import Life, apply, everywhere, running_as, workload
from tests.e2e.witness import Witness
from tests.federation.cut import (
    BACK_WITHIN,
    BLINK_WITHIN,
    DAY,
    DEPLOYMENT,
    HOUR,
    MINUTE,
    NOTICED_AFTER,
    begin,
    check_held_back,
    check_runs_on,
    check_told,
    come_back,
    cut_off,
    errors_of,
    in_cell,
    order,
)
from tests.federation.stage import stage


@pytest.mark.parametrize(
    "seconds",
    [
        1.0,
        pytest.param(40.0, marks=pytest.mark.long),
        MINUTE,
        10 * MINUTE,
        pytest.param(HOUR, marks=pytest.mark.long),
        pytest.param(DAY, marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    ],
)
def test_a_cell_cut_off_lives_on_and_catches_up_in_seconds(seconds: float, tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        uids = await begin(life, lambda: life.cuts.disconnect("dfw"))
        cut_at = asyncio.get_running_loop().time()
        before = await errors_of(life)
        await asyncio.sleep(seconds)
        await check_runs_on(life, uids)
        if seconds >= MINUTE:
            await check_held_back(life, uids)
        if seconds >= NOTICED_AFTER:
            await check_told(life, cut_at)
            assert await errors_of(life) == before, "a pass failed because the centre is away"
        within = BLINK_WITHIN if seconds <= 1 else BACK_WITHIN
        await come_back(life, lambda: life.cuts.connect("dfw"), within=within)

    assert Life(1, tmp_path / "state.db", witness=Witness()).run(story)


@pytest.mark.parametrize("seconds", [1.0, 10 * MINUTE, pytest.param(HOUR, marks=pytest.mark.long)])
async def test_a_line_that_swallows_everything_is_as_good_as_cut(seconds: float) -> None:
    """No connection breaks and nothing is refused: requests get no answer, watches fall silent."""
    async with stage() as on:
        uids = await begin(on, lambda: cut_off(on, silent=True))
        cut_at = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        await check_runs_on(on, uids)
        if seconds >= NOTICED_AFTER:
            await check_told(on, cut_at)
        if seconds >= HOUR:
            await check_held_back(on, uids)
        await come_back(on, on.network.heal)


@pytest.mark.parametrize("days", [pytest.param(1, marks=pytest.mark.long), 30])
def test_a_cell_is_cut_off_for_days_and_its_manager_starts_anew_meanwhile(
    days: int, tmp_path: Path
) -> None:
    """It wakes into the same silence, knowing nothing but what its own plane holds."""
    uids: dict[str, str] = {}
    cut_at: list[float] = []

    async def first(life: Life) -> None:
        uids.update(await begin(life, lambda: life.cuts.disconnect("dfw")))
        cut_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(10 * MINUTE)
        await check_told(life, cut_at[0])

    async def second(life: Life) -> None:
        await asyncio.sleep(10 * MINUTE)
        await check_runs_on(life, uids)
        await check_held_back(life, uids)
        await check_told(life, cut_at[0])
        await come_back(life, lambda: life.cuts.connect("dfw"))

    witness = Witness()
    assert Life(1, tmp_path / "state.db", witness=witness).run(first)
    later = START + timedelta(days=days)
    again = Life(2, tmp_path / "state.db", start=later, cuts=Cuts(["dfw"]), witness=witness)
    assert again.run(second)


@pytest.mark.parametrize("seconds", [10 * MINUTE, pytest.param(HOUR, marks=pytest.mark.long)])
def test_a_cell_cut_off_scales_down_and_is_swept_on_contact(seconds: float, tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        await apply(life, workload("acme/web:1", 3))
        await eventually("deployed", lambda: running_as(life, "acme/web:1", 6))
        life.cuts.disconnect("dfw")
        await asyncio.sleep(MINUTE)
        await order(life, 1, "acme/web:1")
        await asyncio.sleep(seconds)
        assert list(await in_cell(life)) == [f"{DEPLOYMENT}-0"], "the finalizers let go"
        copies = {obj.name for obj in await everywhere(life, compute.INSTANCES, "hub")}
        held = {obj.name for obj in (await life.project.list(quota.RESOURCE_CLAIMS)).items}
        for gone in (f"{DEPLOYMENT}-1", f"{DEPLOYMENT}-2"):
            assert gone in copies, "nobody could tell the hub"
            assert f"instance-{gone}" in held, "nobody could tell the project"
        await apply(life, workload("acme/web:1", 1))
        life.cuts.connect("dfw")
        await eventually("swept", lambda: running_as(life, "acme/web:1", 2), within=BACK_WITHIN)
        assert life.witness is not None
        assert life.witness.broken == []

    assert Life(3, tmp_path / "state.db", witness=Witness()).run(story)


def test_what_others_left_in_the_centre_is_not_swept(tmp_path: Path) -> None:
    """A cell clears up what carries its own name, and no other's."""

    async def story(life: Life) -> None:
        await apply(life, workload("acme/web:1", 1))
        await eventually("deployed", lambda: running_as(life, "acme/web:1", 2))
        life.cuts.disconnect("dfw")
        await asyncio.sleep(MINUTE)
        [claim] = [
            obj
            for obj in (await life.project.list(quota.RESOURCE_CLAIMS)).items
            if obj.metadata.labels[compute.LABEL_SOURCE_CLUSTER] == "lhr"
        ]
        [copy] = [
            obj
            for obj in await everywhere(life, compute.INSTANCES, "hub")
            if obj.metadata.labels[compute.LABEL_SOURCE_CLUSTER] == "lhr"
        ]
        life.cuts.connect("dfw")
        await asyncio.sleep(5 * MINUTE)
        assert await running_as(life, "acme/web:1", 2) == ""
        same = await life.project.get(quota.RESOURCE_CLAIMS, claim.name, claim.namespace)
        assert same.metadata.uid == claim.metadata.uid
        kept = await life.client("hub").get(compute.INSTANCES, copy.name, copy.namespace)
        assert kept.metadata.uid == copy.metadata.uid

    assert Life(4, tmp_path / "state.db").run(story)


class Restarting:
    """A provider whose processes end when told to, and are started again ten seconds later."""

    name = "restarting"

    def __init__(self) -> None:
        self.ended_at: dict[str, float] = {}
        self.starts: list[str] = []

    def end(self, uid: str) -> None:
        self.ended_at[uid] = asyncio.get_running_loop().time()

    async def ensure(self, subject: Subject) -> Report:
        ended = self.ended_at.get(subject.uid)
        left = 0.0 if ended is None else ended + 10 - asyncio.get_running_loop().time()
        if left > 0:
            crashed = failed(compute.REASON_INSTANCE_CRASHING, "the process ended")
            return Report(PROGRAMMED, crashed, look_again=left)
        if subject.uid not in self.starts or self.ended_at.pop(subject.uid, None) is not None:
            self.starts.append(subject.uid)
        return Report(PROGRAMMED, AVAILABLE, look_again=1.0)

    async def remove(self, subject: Subject) -> None:
        self.ended_at.pop(subject.uid, None)


async def test_what_crashes_in_a_cell_cut_off_is_restarted_by_its_provider() -> None:
    """In place, and told within the cell: neither hub nor quota is needed for it."""
    provider = Restarting()
    async with world() as w:
        for client in (w.hub, w.cell):
            await given_namespace(client, w.hub_namespace)
            body = deployment(replicas=2)
            await client.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
        (hub, hub_line), (project, project_line) = w.linked("hub"), w.linked("project/demo")
        cell, hubs, projects = w.cell_fleet(), w.hub_fleet(hub), w.projects(project)
        federated: Any = {"hub": hubs, "projects": projects, "cluster_name": "dfw"}
        async with w.running(
            instance_controller(cell, w.env, **federated),
            workload_deployment_controller(cell, w.env, networking=False, **federated),
            provider_controller(cell, provider, w.env),
        ):
            for ordinal in range(2):
                await _granted(w, ordinal)
            before = {each.split()[1] for each in await _served(w, 2)}
            hub_line.cut = project_line.cut = True
            await asyncio.sleep(MINUTE)
            crashed = await w.cell.get(compute.INSTANCES, "web-main-dfw-0", w.hub_namespace)

            provider.end(crashed.metadata.uid)

            await until(
                w.cell,
                compute.INSTANCES,
                crashed.name,
                w.hub_namespace,
                lambda obj: condition(obj, "Ready") == ("False", "InstanceCrashing"),
            )
            assert {each.split()[1] for each in await _served(w, 2)} == before
            assert provider.starts.count(crashed.metadata.uid) == 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_cell_runs_on_for_thirty_days_without_a_break() -> None:
    """Its own controllers and provider, every second of it; quota is played by hand."""
    loop.run(_thirty_days(), limit=40 * DAY)


async def _thirty_days() -> None:
    async with world() as w:
        for client in (w.hub, w.cell):
            await given_namespace(client, w.hub_namespace)
            body = deployment(replicas=2)
            await client.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
        (hub, hub_line), (project, project_line) = w.linked("hub"), w.linked("project/demo")
        cell, hubs, projects = w.cell_fleet(), w.hub_fleet(hub), w.projects(project)
        federated: Any = {"hub": hubs, "projects": projects, "cluster_name": "dfw"}
        async with w.running(
            instance_controller(cell, w.env, **federated),
            workload_deployment_controller(cell, w.env, networking=False, **federated),
            *simulated_provider(cell, w.env, networking_enabled=False),
        ):
            for ordinal in range(2):
                await _granted(w, ordinal)
            before = await _served(w, 2)
            hub_line.cut = project_line.cut = True
            spec = deployment(replicas=3, image="acme/web:2")["spec"]
            await w.cell.patch(
                compute.WORKLOAD_DEPLOYMENTS, "web-main-dfw", merge({"spec": spec}), w.hub_namespace
            )
            for _ in range(30):
                await asyncio.sleep(DAY)
                assert await _served(w, 2) == before
            told = await w.cell.get(compute.WORKLOAD_DEPLOYMENTS, "web-main-dfw", w.hub_namespace)
            assert "CellDisconnected" in message(told, "ReplicasReady")

            hub_line.cut = project_line.cut = False
            await _granted(w, 2)
            after = await _served(w, 3)
            assert {obj.split()[0] for obj in before} <= {obj.split()[0] for obj in after}


async def _granted(w: World, ordinal: int) -> None:
    name = f"instance-web-main-dfw-{ordinal}"
    claim = await until(w.project, quota.RESOURCE_CLAIMS, name, "default", lambda obj: True)
    await set_condition(
        w, w.project, quota.RESOURCE_CLAIMS, claim, "Granted", "True", "QuotaAvailable"
    )


async def _served(w: World, count: int) -> set[str]:
    """Name, uid and conditions of each Instance that serves, once there are so many."""
    found: list[Object] = []

    async def look() -> str:
        instances = (await w.cell.list(compute.INSTANCES)).items
        found[:] = [obj for obj in instances if condition(obj, "Ready") == ("True", "Available")]
        return "" if len(found) == count else f"{len(found)} serve"

    await eventually(f"{count} serve", look, within=BACK_WITHIN)
    return {f"{obj.name} {obj.metadata.uid} {values(obj.status)['conditions']}" for obj in found}
