"""A cell's Instance on its way through quota to Ready, and its copy on the hub.

Quota and the provider are played by hand.
"""

from __future__ import annotations

import asyncio
from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client.protocol import Client, merge
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.instance.reconcile import START_SECONDS
from datum_compute.platform.apiserver.storage import PlaneStore
from datum_compute.platform.apiserver.storage_table import Event, Table
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.patch import values
from tests.controllers.harness import (
    NAMESPACE,
    World,
    condition,
    deployment,
    find,
    given_namespace,
    let_go,
    message,
    set_condition,
    settle,
    template,
    until,
    until_gone,
    world,
)

NAME = "web-main-dfw-0"
CLAIM = f"instance-{NAME}"
DEPLOYMENT = "web-main-dfw"
PROVIDER = "test.compute.datumapis.com/finalizer"


def controller(
    w: World, *, project: Client | None = None, hub: Client | None = None, **more: Any
) -> Controller:
    return instance_controller(
        w.cell_fleet(),
        w.env,
        hub=w.hub_fleet(hub),
        projects=w.projects(project),
        cluster_name="dfw",
        **more,
    )


def without_quota(w: World, hub: Fleet | None = None) -> Controller:
    return instance_controller(w.cell_fleet(), w.env, hub=hub, projects=None, cluster_name="dfw")


async def given(w: World, *, replicas: int = 1) -> None:
    """Namespaces and deployments on hub and cell, as federator and Karmada leave them."""
    for client in (w.hub, w.cell):
        await given_namespace(client, w.hub_namespace)
        body = deployment(DEPLOYMENT, replicas=replicas)
        await client.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)


def instance(
    *, gates: tuple[str, ...] = ("Quota",), ordinal: int = 0, provided: bool = False
) -> dict[str, Any]:
    finalizers = [compute.FINALIZER_INSTANCE, compute.FINALIZER_QUOTA_CLAIM]
    return {
        "metadata": {
            "name": f"{DEPLOYMENT}-{ordinal}",
            "finalizers": [*finalizers, PROVIDER] if provided else finalizers,
            "labels": {
                "app": "web",
                compute.LABEL_WORKLOAD_UID: "uid-of-web",
                compute.LABEL_WORKLOAD_DEPLOYMENT_UID: "uid-in-the-cell",
                compute.LABEL_INSTANCE_INDEX: str(ordinal),
                compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: DEPLOYMENT,
                compute.LABEL_CITY_CODE: "DFW",
                compute.LABEL_WORKLOAD_NAME: "web",
                compute.LABEL_PLACEMENT_NAME: "main",
            },
        },
        "spec": {
            **template()["spec"],
            "controller": {
                "templateHash": "0123456789abcdef",
                "schedulingGates": [{"name": gate} for gate in gates],
            },
        },
    }


async def create(w: World, **more: Any) -> Object:
    return await w.cell.create(compute.INSTANCES, instance(**more), w.hub_namespace)


async def claim_of(w: World, name: str = CLAIM) -> Object:
    return await until(w.project, quota.RESOURCE_CLAIMS, name, NAMESPACE, lambda obj: True)


async def answer(w: World, status: str = "True", reason: str = "QuotaAvailable") -> Object:
    claim = await claim_of(w)
    return await set_condition(
        w, w.project, quota.RESOURCE_CLAIMS, claim, "Granted", status, reason
    )


async def shows(
    w: World, *expected: tuple[str, str, str], within: float = 60.0, gates: str = ""
) -> Object:
    """The cell's Instance once it has these conditions and exactly these gates."""
    return await until(
        w.cell,
        compute.INSTANCES,
        NAME,
        w.hub_namespace,
        lambda obj: (
            all(condition(obj, type_) == (s, r) for type_, s, r in expected)
            and " ".join(obj.view(compute.Instance).gates) == gates
        ),
        within=within,
    )


async def on_hub(w: World, *expected: tuple[str, str, str]) -> Object:
    return await until(
        w.hub,
        compute.INSTANCES,
        NAME,
        w.hub_namespace,
        lambda obj: all(condition(obj, type_) == (s, r) for type_, s, r in expected),
    )


async def provider_says(w: World, type_: str, status: str, reason: str) -> None:
    found = await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)
    await set_condition(w, w.cell, compute.INSTANCES, found, type_, status, reason)


GRANTED = ("QuotaGranted", "True", "QuotaAvailable")


async def test_a_claim_is_made_in_the_project_with_everything_it_is_found_by() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            claim = await claim_of(w)

        view = claim.view(quota.ResourceClaim)
        assert view.metadata.labels == {
            compute.LABEL_SOURCE_CLUSTER: "dfw",
            compute.LABEL_INSTANCE_NAMESPACE: w.hub_namespace,
        }
        assert view.spec.consumer_ref == view.spec.resource_ref
        assert (view.spec.resource_ref.kind, view.spec.resource_ref.name) == ("Project", "demo")
        asked = {each.resource_type: each.amount for each in view.spec.requests}
        assert asked == {
            "compute.datumapis.com/instances": 1,
            "compute.datumapis.com/vcpus": 1000,
            "compute.datumapis.com/memory": 2048,
        }


async def test_lesson_1_the_gate_goes_in_the_same_pass_as_the_grant() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            found = await shows(w, GRANTED, ("Ready", "False", "PendingProgramming"))

        granted = next(
            each for each in values(found.status)["conditions"] if each["type"] == "QuotaGranted"
        )
        assert granted["observedGeneration"] == found.metadata.generation - 1


async def test_lesson_1_a_crash_between_grant_and_gate_strands_nobody() -> None:
    crashes = iter([True, True])

    def crash() -> None:
        if next(crashes, False):
            raise RuntimeError("the process ends here")

    async with world() as w:
        w.env.on_fault("instance.before-gate", crash)
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)

        assert w.env.fault_counts["instance.before-gate"] == 3


async def test_lesson_2_an_answer_wakes_its_instance_at_once() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            # Ten minutes on the safety requeue has become slow; only the watch is quick.
            await settle(660)
            await answer(w)
            await shows(w, GRANTED, within=1.0)


async def test_lesson_4_a_missed_answer_is_found_by_the_safety_requeue() -> None:
    """The claims cannot be watched, so that nothing but asking again can find the answer."""
    async with world() as w:
        await given(w)
        client, link = w.linked("project/demo")
        link.deaf = True
        async with w.running(controller(w, project=client)):
            await create(w)
            await shows(w, ("Ready", "False", "SchedulingGatesPresent"), gates="Quota")
            await answer(w)
            await shows(w, GRANTED, within=5.0)


async def test_a_gated_instance_is_reported_while_nobody_answers() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await shows(
                w,
                ("Ready", "False", "SchedulingGatesPresent"),
                ("QuotaGranted", "Unknown", "QuotaNoBudget"),
                gates="Quota",
            )
            await on_hub(w, ("Ready", "False", "SchedulingGatesPresent"))


async def test_the_network_gate_is_not_ours_to_lift() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w, gates=("Network", "Quota"))
            await answer(w)
            found = await shows(
                w, GRANTED, ("Ready", "False", "SchedulingGatesPresent"), gates="Network"
            )

        assert message(found, "Ready") == "Scheduling gates present: Network"


async def test_ready_follows_what_the_provider_says() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, ("Ready", "False", "PendingProgramming"))
            await provider_says(w, "Available", "False", "ImageUnavailable")
            await shows(w, ("Ready", "False", "ImageUnavailable"))
            await provider_says(w, "Programmed", "True", "Programmed")
            await provider_says(w, "Available", "True", "Available")
            await shows(w, ("Ready", "True", "Available"))
            await on_hub(w, ("Ready", "True", "Available"))
            await provider_says(w, "Available", "False", "InstanceCrashing")
            await shows(w, ("Ready", "False", "InstanceCrashing"))


async def test_a_network_that_failed_is_told_before_the_gates() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w, networking=True)):
            owner = await w.cell.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
            await create(w, gates=("Network", "Quota"))
            body = {
                "metadata": {
                    "name": f"{DEPLOYMENT}-net-0",
                    "ownerReferences": [
                        {
                            "apiVersion": owner.api_version,
                            "kind": owner.kind,
                            "name": owner.name,
                            "uid": owner.metadata.uid,
                            "controller": True,
                        }
                    ],
                },
                "spec": {"network": {"name": "default"}, "location": {"name": "dfw"}},
            }
            binding = await w.cell.create(networking.NETWORK_BINDINGS, body, w.hub_namespace)
            await set_condition(
                w,
                w.cell,
                networking.NETWORK_BINDINGS,
                binding,
                "Ready",
                "False",
                "NetworkFailedToCreate",
            )
            failed = ("Ready", "False", "NetworkFailedToCreate")
            await shows(w, failed, gates="Network Quota")


async def test_without_quota_everything_is_granted_and_no_claim_is_made() -> None:
    async with world() as w:
        await given(w)
        async with w.running(without_quota(w)):
            await create(w)
            await shows(w, ("QuotaGranted", "True", "QuotaDisabled"))

        assert (await w.project.list(quota.RESOURCE_CLAIMS)).items == []
        assert (await w.hub.list(compute.INSTANCES)).items == []


async def test_quota_waits_for_the_labels_of_the_namespace() -> None:
    async with world() as w:
        await w.cell.create(core.NAMESPACES, {"metadata": {"name": w.hub_namespace, "labels": {}}})
        async with w.running(controller(w)):
            await create(w)
            await shows(w, ("QuotaGranted", "Unknown", "PendingEvaluation"), gates="Quota")
            labels = {
                compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-acme_demo",
                compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
            }
            body = {"metadata": {"labels": labels}}
            await w.cell.patch(core.NAMESPACES, w.hub_namespace, merge(body))
            await answer(w)
            await shows(w, GRANTED)


async def test_a_denied_claim_is_released_and_made_again_when_there_is_room() -> None:
    async with world() as w:
        await given(w)
        buckets = [await given_bucket(w, name, 0) for name in ("instances", "vcpus", "memory")]
        async with w.running(controller(w)):
            await create(w)
            await answer(w, "False", "QuotaExceeded")
            denied = (
                ("QuotaGranted", "False", "QuotaExceeded"),
                ("Ready", "False", "PendingQuota"),
                ("Programmed", "False", "PendingQuota"),
            )
            await shows(w, *denied, gates="Quota")
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await settle(120)
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is None

            for bucket in buckets:
                await set_room(w, bucket, 10_000)
            await claim_of(w)
            await settle(10)
            await shows(w, *denied, gates="Quota")

            await answer(w)
            found = await shows(w, GRANTED, ("Ready", "False", "PendingProgramming"))
            assert condition(found, "Programmed") == ("Unknown", "Pending")


async def given_bucket(w: World, name: str, available: int) -> Object:
    body = {
        "metadata": {"name": f"bucket-{name}"},
        "spec": {
            "consumerRef": {"kind": "Project", "name": "demo"},
            "resourceType": f"compute.datumapis.com/{name}",
        },
    }
    bucket = await w.project.create(quota.ALLOWANCE_BUCKETS, body, quota.NAMESPACE_MILO_SYSTEM)
    await set_room(w, bucket, available)
    return bucket


async def set_room(w: World, bucket: Object, available: int) -> None:
    body = {"status": {"limit": available, "available": available}}
    await w.project.patch(
        quota.ALLOWANCE_BUCKETS, bucket.name, merge(body), bucket.namespace, subresource="status"
    )


async def test_of_two_that_were_denied_the_lower_ordinal_asks_again_first() -> None:
    async with world() as w:
        await given(w, replicas=2)
        buckets = [await given_bucket(w, name, 0) for name in ("instances", "vcpus", "memory")]
        async with w.running(controller(w)):
            for ordinal in (1, 0):
                await create(w, ordinal=ordinal)
                name = f"instance-{DEPLOYMENT}-{ordinal}"
                claim = await claim_of(w, name)
                await set_condition(
                    w, w.project, quota.RESOURCE_CLAIMS, claim, "Granted", "False", "QuotaExceeded"
                )
                await until_gone(w.project, quota.RESOURCE_CLAIMS, name, NAMESPACE)
            for bucket, room in zip(buckets, (1, 1000, 2048), strict=True):
                await set_room(w, bucket, room)
            await claim_of(w, f"instance-{DEPLOYMENT}-0")
            await settle()
            claims = (await w.project.list(quota.RESOURCE_CLAIMS)).items

        assert [claim.name for claim in claims] == [f"instance-{DEPLOYMENT}-0"]


async def test_a_grant_is_sticky_and_a_lost_claim_comes_back() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)
            await w.project.delete(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await claim_of(w)
            await answer(w, "False", "QuotaExceeded")
            await settle()
            await shows(w, GRANTED)
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None


async def test_a_granted_instance_whose_new_claim_was_denied_asks_again_when_there_is_room() -> (
    None
):
    async with world() as w:
        await given(w)
        buckets = [await given_bucket(w, name, 0) for name in ("instances", "vcpus", "memory")]
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)
            await w.project.delete(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            denied = await answer(w, "False", "QuotaExceeded")
            await settle(300)
            assert (await claim_of(w)).metadata.uid == denied.metadata.uid

            for bucket in buckets:
                await set_room(w, bucket, 10_000)
            await settle(120)

            assert (await claim_of(w)).metadata.uid != denied.metadata.uid
            await shows(w, GRANTED)


async def test_a_lost_claim_comes_back_although_the_first_try_got_lost() -> None:
    async with world() as w:
        await given(w)
        client, link = w.linked("project/demo")
        async with w.running(controller(w, project=client)):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)
            link.cut = True
            await w.project.delete(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await settle(1)
            link.cut = False
            await settle(120)

            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None


async def test_a_project_that_does_not_answer_is_told_and_asked_again() -> None:
    async with world() as w:
        await given(w)
        client, link = w.linked("project/demo")
        link.cut = True
        async with w.running(controller(w, project=client)):
            await create(w)
            await shows(w, ("QuotaGranted", "False", "QuotaBackendUnavailable"), gates="Quota")
            link.cut = False
            await answer(w)
            await shows(w, GRANTED)


async def test_a_claim_of_another_cell_is_never_touched() -> None:
    async with world() as w:
        await given(w)
        body = {
            "metadata": {
                "name": CLAIM,
                "labels": {
                    compute.LABEL_SOURCE_CLUSTER: "lhr",
                    compute.LABEL_INSTANCE_NAMESPACE: w.hub_namespace,
                },
            },
            "spec": {
                "requests": [{"resourceType": "compute.datumapis.com/instances", "amount": 1}],
                "resourceRef": {"kind": "Project", "name": "demo"},
            },
        }
        theirs = await w.project.create(quota.RESOURCE_CLAIMS, body, NAMESPACE)
        async with w.running(controller(w)):
            await create(w)
            found = await shows(w, ("QuotaGranted", "False", "QuotaMisconfigured"), gates="Quota")
            assert "lhr" in message(found, "QuotaGranted")
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)

        kept = await w.project.get(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
        assert kept.metadata.resource_version == theirs.metadata.resource_version


# The copy on the hub.


async def test_lesson_15_a_gated_instance_is_on_the_hub_with_exactly_its_labels() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            made = await create(w)
            copy = await on_hub(w, ("Ready", "False", "SchedulingGatesPresent"))

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


async def test_no_copy_is_made_without_its_owner_and_one_is_when_it_comes() -> None:
    async with world() as w:
        for client in (w.hub, w.cell):
            await given_namespace(client, w.hub_namespace)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)
            await settle()
            assert (await w.hub.list(compute.INSTANCES)).items == []

            body = deployment(DEPLOYMENT)
            await w.hub.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
            await on_hub(w, GRANTED)


async def test_a_provider_that_answers_at_once_makes_one_report_of_two() -> None:
    async with world() as w:
        await given(w)
        told: list[tuple[str, str]] = []

        def note(plane: PlaneStore, table: Table, event: Event) -> None:
            if (plane.name, table.resource) == ("hub", compute.INSTANCES.group_resource):
                copy = Object.from_wire(event.after.raw)
                told.append(condition(copy, "Ready"))

        w.embedded.store.listeners.append(note)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, ("Ready", "False", "PendingProgramming"))
            await provider_says(w, "Programmed", "True", "Programmed")
            await provider_says(w, "Available", "True", "Available")
            await on_hub(w, ("Ready", "True", "Available"))
            await settle()

        assert told[1:] == [("True", "Available")]


async def test_a_provider_that_says_nothing_holds_a_report_up_only_shortly() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, ("Ready", "False", "PendingProgramming"))
            assert await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace) is None
            await asyncio.sleep(2 * START_SECONDS)
            copy = await w.hub.get(compute.INSTANCES, NAME, w.hub_namespace)

        assert condition(copy, "Ready") == ("False", "PendingProgramming")


async def test_a_finalizer_of_somebody_else_asks_for_no_run_and_one_of_ours_comes_back() -> None:
    async with world() as w:
        await given(w)
        running = controller(w)
        async with w.running(running):
            made = await create(w)
            await answer(w)
            await shows(w, GRANTED)
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


async def test_copies_come_back_under_the_deployment_that_replaces_theirs() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
            await w.hub.delete(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
            await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
            body = deployment(DEPLOYMENT)
            owner = await w.hub.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
            copy = await on_hub(w, GRANTED)

        reference = copy.metadata.controller()
        assert reference is not None
        assert reference.uid == owner.metadata.uid


async def test_a_copy_without_an_owner_is_given_its_deployment() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
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


async def test_a_cell_does_not_listen_to_the_deployments_of_other_cells() -> None:
    """All of them lie on the hub, and their reports never end."""
    async with world() as w:
        await given(w)
        hub_fleet = w.hub_fleet()
        async with w.running(without_quota(w, hub_fleet)):
            await create(w)
            await settle()
            hub = hub_fleet.get("hub")
            assert hub is not None
            watched = {cache.resource for cache in hub.caches()}
        assert watched == {compute.INSTANCES, core.NAMESPACES}


async def test_a_copy_changed_or_deleted_by_hand_is_put_right_and_foreign_labels_stay() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            first = await on_hub(w, GRANTED)
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


async def test_a_hub_that_is_away_blocks_neither_quota_nor_gates_nor_status() -> None:
    async with world() as w:
        await given(w)
        client, link = w.linked("hub")
        link.cut = True
        async with w.running(controller(w, hub=client)):
            await create(w)
            await answer(w)
            await shows(w, GRANTED, ("Ready", "False", "PendingProgramming"))
            assert (await w.hub.list(compute.INSTANCES)).items == []

            link.cut = False
            await on_hub(w, GRANTED)


async def test_a_hub_that_stays_away_is_tried_ever_more_seldom_and_told_when_it_is_back() -> None:
    async with world() as w:
        await given(w)
        client, link = w.linked("hub")
        link.cut = True
        running = controller(w, hub=client)
        async with w.running(running):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)
            await settle(600)
            before = running.statistics()
            await settle(3600)
            after = running.statistics()
            assert 60 < after.runs - before.runs < 600
            assert after.errors == before.errors == 0

            link.cut = False
            await settle(60)
            await on_hub(w, GRANTED)


# The end.


async def test_deletion_gives_back_copy_and_claim() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
            await scale(w, 0)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)

        assert (await w.hub.list(compute.INSTANCES)).items == []
        assert (await w.project.list(quota.RESOURCE_CLAIMS)).items == []


async def test_nothing_is_given_back_while_a_provider_holds_the_instance() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w, provided=True)
            await answer(w)
            await on_hub(w, GRANTED)
            await scale(w, 0)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            assert await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace) is not None
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None

            found = await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)
            left = [each for each in found.metadata.finalizers if each != PROVIDER]
            body = {"metadata": {"finalizers": left}}
            await w.cell.patch(compute.INSTANCES, NAME, merge(body), w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)

        assert (await w.project.list(quota.RESOURCE_CLAIMS)).items == []


async def scale(w: World, replicas: int) -> None:
    body = {"spec": {"scaleSettings": {"minReplicas": replicas}}}
    await w.cell.patch(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, merge(body), w.hub_namespace)


async def test_a_replacement_takes_over_the_claim_of_its_predecessor() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            first = await answer(w)
            await shows(w, GRANTED)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            await create(w)
            await shows(w, GRANTED)
            kept = await claim_of(w)

        assert kept.metadata.uid == first.metadata.uid


async def test_a_kept_claim_goes_when_its_ordinal_is_no_longer_wanted() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None

            await scale(w, 0)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def test_planes_that_are_away_hold_up_no_deletion_and_are_swept_on_contact() -> None:
    async with world() as w:
        await given(w)
        hub, hub_link = w.linked("hub")
        project, project_link = w.linked("project/demo")
        async with w.running(controller(w, hub=hub, project=project)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
            await scale(w, 0)
            hub_link.cut = project_link.cut = True
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            assert await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace) is not None
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None

            hub_link.cut = project_link.cut = False
            await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def test_leftovers_of_an_earlier_life_are_swept_after_a_restart() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
        await scale(w, 0)
        await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
        await let_go(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
        async with w.running(controller(w)):
            await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def test_a_settled_instance_is_not_written_again() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
            await settle()
            places = [(c, compute.INSTANCES) for c in (w.cell, w.hub)]
            before = [(await c.list(kind)).resource_version for c, kind in places]
            await settle(600)

        assert [(await c.list(kind)).resource_version for c, kind in places] == before
