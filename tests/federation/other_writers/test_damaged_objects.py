"""Objects that cannot be read, among good ones, on every plane.

They are written past the server into its store, as an older release, another writer with another
schema or a restored backup would leave them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

import msgspec
import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services
from datum_compute.client import errors
from datum_compute.runtime.controller import Controller, Reconcile
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import Result
from datum_compute.testing import loop
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.objects import condition, find, message
from tests.support.simulation.commit_checker import NoRules
from tests.support.simulation.damage import (
    ODD_NAMES,
    VIEWS,
    Damaged,
    Reports,
    Wire,
    add_damaged_copy,
    damage,
    is_unreadable,
    random_damage,
    stored_objects,
)
from tests.support.simulation.platform import apply
from tests.support.simulation.random_operations import DesiredWorkload
from tests.support.simulation.settled import unsettled

WEB = DesiredWorkload("web", "acme/web:1", 1, ("DFW",))
BIGGER = DesiredWorkload("web", "acme/web:2", 2, ("DFW",))
BACK = DesiredWorkload("web", "acme/web:3", 1, ("DFW",))
API = DesiredWorkload("api", "acme/api:1", 1, ("DFW",))

PLANES = {"root": "root", "hub": "hub", "projects": "project/demo"}
"""The planes of the fleets of all processes, by the name of the fleet; all others are cells."""

GOOD_SECONDS = 120.0
"""How long a change of a good Workload may take, whatever is beside it."""
CORRECTED_SECONDS = 900.0
"""A key is tried again within five minutes while an object that it needs cannot be read."""

UNREAD = (services.SERVICES, networking.LOCATIONS, networking.NETWORK_CONTEXTS)
"""Kinds that controllers find by name: no controller looks at a copy that nothing names."""

LEAST_KINDS = 20
LEAST = {"root": 6, "hub": 9, "project/demo": 14, "cell/dfw": 10}
"""Kinds, and objects on each plane, that are damaged at least."""


@dataclass
class Outcome:
    damaged: list[Damaged] = field(default_factory=list)
    by_controller: Counter[str] = field(default_factory=Counter)
    """Damaged objects of the kinds that each controller watches or reads."""
    unreported: list[str] = field(default_factory=list)
    mistakes: set[str] = field(default_factory=set)


async def live_among_damaged(
    seed: int, plant: Callable[[Stage], None] = lambda on: None
) -> Outcome:
    """One Workload changes twice: among damaged objects of another and damaged copies of those and
    of what both share, and when they are corrected and deleted. Both then run."""
    outcome, chance = Outcome(), Random(seed)
    async with stage(cities=("DFW",), commit_checker=NoRules(), permissive=True, seed=seed) as on:
        await apply(on, WEB.to_create())
        await on.project.create(compute.WORKLOADS, API.to_create(), NAMESPACE)
        await eventually("deployed", lambda: unsettled(on, {"web": WEB, "api": API}))
        plant(on)
        with Reports() as reports:
            await _damage_all(on, chance, outcome)
            await apply(on, BIGGER.to_create())
            await eventually("changed", partial(_runs, on, BIGGER), within=GOOD_SECONDS, every=2.0)
        outcome.mistakes = reports.mistakes
        outcome.unreported = [
            str(each)
            for each in _still_unreadable(on, outcome.damaged)
            if each.name not in reports.names and each.resource not in UNREAD
        ]
        await _correct(on, outcome.damaged)
        await apply(on, BACK.to_create())
        await eventually("changed", partial(_runs, on, BACK), within=GOOD_SECONDS, every=2.0)
        late = partial(eventually, within=CORRECTED_SECONDS, every=10.0)
        await late("corrected", partial(_runs, on, API))
        await late("deleted", partial(_left, on, outcome.damaged))
        assert [part.process.lives for part in on.parts.values()] == [1] * len(on.parts)
    return outcome


def watched_kinds(on: Stage) -> dict[str, set[tuple[str, Resource]]]:
    """Plane and kind of all that each controller watches or reads, of the kinds that have views."""
    return {
        f"{process} {controller.name}": {
            (PLANES.get(source.fleet.name, "cell/dfw"), source.resource)
            for source in controller.sources
            if source.resource in VIEWS
        }
        for process, manager in on.managers.items()
        for controller in manager.controllers
    }


async def _damage_all(on: Stage, chance: Random, outcome: Outcome) -> None:
    """Nothing of the good Workload, of which a copy would be another order, and no copy of a Work:
    its deletion deletes what the original brought to the cell."""
    watched = watched_kinds(on)
    store, found = on.platform.store, outcome.damaged
    for plane, resource in sorted({each for kinds in watched.values() for each in kinds}):
        for stored in stored_objects(store, plane, resource):
            if "web" in stored.name:
                continue
            if resource != karmada.WORKS:
                change, name = random_damage(chance), chance.choice(ODD_NAMES).format(stored.name)
                copied = (plane, resource, stored, change, name[:253], on.env.new_uid())
                found.append(add_damaged_copy(store, *copied))
            if "api" in stored.name:
                found.append(damage(store, plane, resource, stored, random_damage(chance)))
    for controller, kinds in watched.items():
        outcome.by_controller[controller] += sum((e.plane, e.resource) in kinds for e in found)
    await store.wait_durable()


async def _runs(on: Stage, wanted: DesiredWorkload) -> str:
    """What a Workload lacks, whatever is beside it."""
    found = await on.project.get(compute.WORKLOADS, wanted.name, NAMESPACE)
    status = found.view(compute.Workload).status
    counted = (status.updated_replicas, status.ready_replicas, status.desired_replicas)
    if counted != (wanted.minimum,) * 3:
        return f"counters {counted}, not {wanted.minimum}"
    if condition(found, "Available")[0] != "True":
        return f"it is not Available: {message(found, 'Available')}"
    for ordinal in range(wanted.minimum):
        name = f"{wanted.name}-default-dfw-{ordinal}"
        for client, namespace in ((on.project, NAMESPACE), (on.cell(), on.hub_namespace)):
            obj = await find(client, compute.INSTANCES, name, namespace)
            if obj is None or wanted.image.encode() not in bytes(obj.spec):
                return f"{name} does not run {wanted.image} on {client.cluster}"
    return ""


def _still_unreadable(on: Stage, damaged: list[Damaged]) -> list[Damaged]:
    """Those that no controller has written anew or deleted."""
    left = {
        stored.uid
        for plane, resource in {(each.plane, each.resource) for each in damaged}
        for stored in stored_objects(on.platform.store, plane, resource)
        if is_unreadable(stored, resource)
    }
    return [each for each in damaged if each.unreadable and each.uid in left]


async def _correct(on: Stage, found: list[Damaged]) -> None:
    """Write what was damaged in place as it was, and delete the copies."""
    store = on.platform.store
    for each in found:
        if each.original is None:
            try:
                await on.client(each.plane).delete(
                    each.resource, each.name, each.namespace, uid=each.uid
                )
            except (errors.NotFound, errors.Conflict):
                pass  # a controller has deleted it, or replaced it
            continue
        for stored in stored_objects(store, each.plane, each.resource):
            if stored.uid == each.uid and not stored.deleting:
                damage(store, each.plane, each.resource, stored, partial(_reset, each.original))
    await store.wait_durable()


def _reset(original: Wire, obj: Wire) -> None:
    obj.clear()
    obj.update(original)


async def _left(on: Stage, damaged: list[Damaged]) -> str:
    for each in damaged:
        if each.original is None:
            obj = await find(on.client(each.plane), each.resource, each.name, each.namespace)
            if obj is not None and obj.metadata.uid == each.uid:
                return f"{each}: finalizers {obj.metadata.finalizers}"
    return ""


def check(outcome: Outcome) -> None:
    assert outcome.unreported == []
    assert outcome.mistakes == set()
    assert [name for name, count in outcome.by_controller.items() if not count] == []
    counts = Counter(each.plane for each in outcome.damaged)
    assert all(counts[plane] >= least for plane, least in LEAST.items()), counts
    assert len({each.resource for each in outcome.damaged}) >= LEAST_KINDS
    kinds = Counter((each.valid, each.unreadable) for each in outcome.damaged)
    assert (kinds[False, True] >= 10, kinds[True, False] >= 1) == (True, True), kinds


def test_good_objects_change_among_damaged_ones_of_every_kind_that_is_watched() -> None:
    check(loop.run(live_among_damaged(0)))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 41))
def test_good_objects_change_among_damaged_ones_of_more_seeds(seed: int) -> None:
    check(loop.run(live_among_damaged(seed)))


def test_a_controller_whose_reconcile_stops_at_a_damaged_object_is_found() -> None:
    def plant(on: Stage) -> None:
        for controller in on.managers["compute-management"].controllers:
            if controller.name == "workload":
                controller.reconcile = partial(
                    _read_all_and_reconcile, controller.reconcile, controller
                )

    with pytest.raises(AssertionError, match="changed: after"):
        loop.run(live_among_damaged(0, plant))


async def _read_all_and_reconcile(
    reconcile: Reconcile, controller: Controller, request: Request
) -> Result | None:
    project = controller.fleet.get(request.cluster)
    assert project is not None
    for resource in (compute.WORKLOADS, compute.WORKLOAD_DEPLOYMENTS, networking.LOCATION_BINDINGS):
        for each in project.cache(resource).list():
            each.view(VIEWS[resource])
            assert not each.problem
    return await reconcile(request)


@pytest.mark.parametrize(
    ("plane", "resource"),
    [
        ("root", resourcemanager.PROJECTS),
        ("hub", karmada.CLUSTERS),
        ("hub", karmada.WORKS),
        ("project/demo", compute.WORKLOADS),
        ("project/demo", compute.WORKLOAD_DEPLOYMENTS),
        ("cell/dfw", compute.WORKLOAD_DEPLOYMENTS),
        ("cell/dfw", compute.INSTANCES),
    ],
    ids=str,
)
async def test_an_object_whose_spec_cannot_be_read_can_be_deleted(
    plane: str, resource: Resource
) -> None:
    def damaged(obj: Wire) -> None:
        """Of no owner, so that no controller writes it again."""
        obj["spec"] = 7.5
        for key in ("labels", "annotations", "ownerReferences"):
            obj["metadata"].pop(key, None)

    async with stage(cities=("DFW",), commit_checker=NoRules(), permissive=True) as on:
        await apply(on, WEB.to_create())
        await eventually("deployed", lambda: unsettled(on, {"web": WEB}))
        store = on.platform.store
        stored = stored_objects(store, plane, resource)[0]
        copied = (plane, resource, stored, damaged, "odd", on.env.new_uid())
        copy = add_damaged_copy(store, *copied)
        await store.wait_durable()
        await on.client(plane).delete(resource, "odd", copy.namespace)

        await eventually("deleted", partial(_left, on, [copy]), within=60)
        await eventually("undisturbed", lambda: unsettled(on, {"web": WEB}), within=60)


async def test_a_status_with_a_fraction_stops_no_workload_and_is_put_back() -> None:
    async with stage(cities=("DFW",), commit_checker=NoRules(), permissive=True) as on:
        await apply(on, WEB.to_create())
        await eventually("deployed", lambda: unsettled(on, {"web": WEB}))
        store = on.platform.store
        for plane in ("project/demo", "hub", "cell/dfw"):
            for resource in (compute.WORKLOAD_DEPLOYMENTS, compute.INSTANCES):
                for stored in stored_objects(store, plane, resource):
                    damage(
                        store,
                        plane,
                        resource,
                        stored,
                        lambda obj: obj["status"].update(conditions=7.5, replicas=7.5),
                    )
        await store.wait_durable()
        await apply(on, BIGGER.to_create())

        await eventually("changed", lambda: unsettled(on, {"web": BIGGER}), within=120)


async def test_a_stray_instance_with_a_label_that_no_server_accepts_holds_up_no_roll() -> None:
    async with stage(cities=("DFW",), commit_checker=NoRules(), permissive=True) as on:
        await apply(on, WEB.to_create())
        await eventually("deployed", lambda: unsettled(on, {"web": WEB}))
        store = on.platform.store
        [stored] = stored_objects(store, "cell/dfw", compute.INSTANCES)
        stray = msgspec.json.decode(stored.raw)
        stray["metadata"] |= {"name": "web-default-dfw-stray", "uid": on.env.new_uid()}
        stray["metadata"]["labels"][compute.LABEL_INSTANCE_INDEX] = "not a value!"
        store.planes["cell/dfw"].put(compute.INSTANCES.group_resource, stray, None)
        await store.wait_durable()
        await apply(on, BIGGER.to_create())

        await eventually("changed", lambda: unsettled(on, {"web": BIGGER}), within=120)
