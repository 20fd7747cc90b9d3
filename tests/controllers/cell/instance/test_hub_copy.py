"""The copy of a cell's Instance on the hub.

The test acts as quota and as the provider.
"""

from __future__ import annotations

import asyncio
from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.instance.reconcile import START_SECONDS
from datum_compute.runtime.writes.patch import values
from tests.support.client.intercepted_transport import CUT
from tests.support.controllers.cell_instances import (
    DEPLOYMENT,
    GRANTED,
    NAME,
    answer_claim,
    controller,
    create,
    create_prerequisites,
    set_provider_condition,
    until_hub_copy_shows,
    until_instance_shows,
    without_quota,
)
from tests.support.controllers.planes import (
    NAMESPACE,
    controller_planes,
    deployment,
    given_namespace,
    settle,
)
from tests.support.objects import condition, find, until, until_gone


async def test_lesson_15_a_gated_instance_is_on_the_hub_with_exactly_its_labels() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            made = await create(w)
            copy = await until_hub_copy_shows(w, ("Ready", "False", "SchedulingGatesPresent"))

        owner = await w.hub.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
        expected = {key: value for key, value in made.metadata.labels.items() if key != "app"}
        assert copy.metadata.labels == {
            **expected,
            compute.LABEL_SOURCE_CLUSTER: "dfw",
            compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo",
            compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
        }
        assert copy.metadata.annotations == {compute.ANNOTATION_INSTANCE_UID: made.metadata.uid}
        reference = copy.metadata.controller()
        assert reference is not None
        assert reference.uid == owner.metadata.uid
        assert values(copy.spec) == values(made.spec)


async def test_a_copy_is_created_only_once_its_owner_exists() -> None:
    async with controller_planes() as w:
        for client in (w.hub, w.cell):
            await given_namespace(client, w.hub_namespace)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            await settle()
            assert (await w.hub.list(compute.INSTANCES)).items == []

            body = deployment(DEPLOYMENT)
            await w.hub.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
            await until_hub_copy_shows(w, GRANTED)


async def test_conditions_that_change_together_are_reported_in_one_write() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        reported: list[tuple[str, str]] = []

        def note(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
            if (plane.name, table.resource) == ("hub", compute.INSTANCES.group_resource):
                copy = Object.from_wire(event.after.raw)
                reported.append(condition(copy, "Ready"))

        w.embedded.store.subscribe(note)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, ("Ready", "False", "PendingProgramming"))
            await set_provider_condition(w, "Programmed", "True", "Programmed")
            await set_provider_condition(w, "Available", "True", "Available")
            await until_hub_copy_shows(w, ("Ready", "True", "Available"))
            await settle()

        assert reported[1:] == [("True", "Available")]


async def test_a_report_waits_only_briefly_for_a_provider_that_does_not_respond() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, ("Ready", "False", "PendingProgramming"))
            assert await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace) is None
            await asyncio.sleep(2 * START_SECONDS)
            copy = await w.hub.get(compute.INSTANCES, NAME, w.hub_namespace)

        assert condition(copy, "Ready") == ("False", "PendingProgramming")


async def test_a_foreign_finalizer_triggers_no_reconcile_and_ours_is_restored() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        running = controller(w)
        async with w.running(running):
            made = await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            await settle()
            before = running.statistics().runs
            held = [*made.metadata.finalizers, "other.example/hold"]
            body: dict[str, Any] = {"metadata": {"finalizers": held}}
            await w.cell.patch(compute.INSTANCES, NAME, merge(body), w.hub_namespace)
            await settle()
            assert running.statistics().runs == before

            body = {"metadata": {"finalizers": ["other.example/hold"]}}
            await w.cell.patch(compute.INSTANCES, NAME, merge(body), w.hub_namespace)
            await until(
                w.cell,
                compute.INSTANCES,
                NAME,
                w.hub_namespace,
                lambda obj: set(held) == set(obj.metadata.finalizers),
            )


async def test_copies_are_recreated_under_a_recreated_deployment() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_hub_copy_shows(w, GRANTED)
            await w.hub.delete(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
            await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
            body = deployment(DEPLOYMENT)
            owner = await w.hub.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
            copy = await until_hub_copy_shows(w, GRANTED)

        reference = copy.metadata.controller()
        assert reference is not None
        assert reference.uid == owner.metadata.uid


async def test_a_copy_without_an_owner_is_adopted_by_its_deployment() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_hub_copy_shows(w, GRANTED)
            body: dict[str, Any] = {"metadata": {"ownerReferences": None}}
            await w.hub.patch(compute.INSTANCES, NAME, merge(body), w.hub_namespace)
            owner = await w.hub.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
            await until(
                w.hub,
                compute.INSTANCES,
                NAME,
                w.hub_namespace,
                lambda obj: [o.uid for o in obj.metadata.owner_references] == [owner.metadata.uid],
            )


async def test_a_cell_does_not_watch_deployments_of_other_cells() -> None:
    """All of them are on the hub, and their reports never end."""
    async with controller_planes() as w:
        await create_prerequisites(w)
        hub_fleet = w.hub_fleet()
        async with w.running(without_quota(w, hub_fleet)):
            await create(w)
            await settle()
            hub = hub_fleet.get("hub")
            assert hub is not None
            watched = {cache.resource for cache in hub.caches()}
        assert watched == {compute.INSTANCES, core.NAMESPACES}


async def test_a_copy_changed_or_deleted_by_hand_is_restored_and_foreign_labels_stay() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            first = await until_hub_copy_shows(w, GRANTED)
            labels = {compute.LABEL_CITY_CODE: "LHR", "theirs": "yes"}
            await w.hub.patch(
                compute.INSTANCES, NAME, merge({"metadata": {"labels": labels}}), w.hub_namespace
            )
            healed = await until(
                w.hub,
                compute.INSTANCES,
                NAME,
                w.hub_namespace,
                lambda obj: obj.metadata.labels[compute.LABEL_CITY_CODE] == "DFW",
            )
            assert healed.metadata.labels["theirs"] == "yes"

            await w.hub.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until(
                w.hub,
                compute.INSTANCES,
                NAME,
                w.hub_namespace,
                lambda obj: obj.metadata.uid != first.metadata.uid,
            )


async def test_an_unreachable_hub_blocks_neither_quota_nor_gates_nor_status() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked("hub")
        link.rules.append(CUT)
        async with w.running(controller(w, hub=client)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED, ("Ready", "False", "PendingProgramming"))
            assert (await w.hub.list(compute.INSTANCES)).items == []

            link.rules.remove(CUT)
            await until_hub_copy_shows(w, GRANTED)


async def test_an_unreachable_hub_is_retried_with_backoff_and_gets_the_copy_when_it_returns() -> (
    None
):
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked("hub")
        link.rules.append(CUT)
        running = controller(w, hub=client)
        async with w.running(running):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            await settle(600)
            before = running.statistics()
            await settle(3600)
            after = running.statistics()
            assert 60 < after.runs - before.runs < 600
            assert after.errors == before.errors == 0

            link.rules.remove(CUT)
            await settle(60)
            await until_hub_copy_shows(w, GRANTED)
