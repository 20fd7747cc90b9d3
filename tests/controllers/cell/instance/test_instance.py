"""A cell's Instance on its way through quota to Ready.

The test acts as quota and as the provider.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client.protocol import merge
from datum_compute.runtime.metrics.exposition import render
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.writes.patch import values
from tests.support.controllers.cell_instances import (
    DEPLOYMENT,
    GRANTED,
    NAME,
    answer_claim,
    claim_of,
    controller,
    create,
    create_prerequisites,
    set_provider_condition,
    until_hub_copy_shows,
    until_instance_shows,
    without_quota,
)
from tests.support.controllers.planes import NAMESPACE, controller_planes, set_condition, settle
from tests.support.objects import message

WITHOUT_QUOTA = ("QuotaGranted", "True", "QuotaDisabled")


async def test_a_claim_is_created_in_the_project_with_its_labels_consumer_and_amounts() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
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


async def test_lesson_01_the_gate_is_removed_in_the_reconcile_of_the_grant() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            found = await until_instance_shows(w, GRANTED, ("Ready", "False", "PendingProgramming"))

        granted = next(
            each for each in values(found.status)["conditions"] if each["type"] == "QuotaGranted"
        )
        assert granted["observedGeneration"] == found.metadata.generation - 1


async def test_a_gated_instance_is_reported_while_its_claim_is_pending() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await until_instance_shows(
                w,
                ("Ready", "False", "SchedulingGatesPresent"),
                ("QuotaGranted", "Unknown", "QuotaNoBudget"),
                gates="Quota",
            )
            await until_hub_copy_shows(w, ("Ready", "False", "SchedulingGatesPresent"))


async def test_the_instance_controller_does_not_remove_the_network_gate() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w, gates=("Network", "Quota"))
            await answer_claim(w)
            found = await until_instance_shows(
                w, GRANTED, ("Ready", "False", "SchedulingGatesPresent"), gates="Network"
            )

        assert message(found, "Ready") == "Scheduling gates present: Network"


async def test_ready_follows_the_provider_conditions() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, ("Ready", "False", "PendingProgramming"))
            await set_provider_condition(w, "Available", "False", "ImageUnavailable")
            await until_instance_shows(w, ("Ready", "False", "ImageUnavailable"))
            await set_provider_condition(w, "Programmed", "True", "Programmed")
            await set_provider_condition(w, "Available", "True", "Available")
            await until_instance_shows(w, ("Ready", "True", "Available"))
            await until_hub_copy_shows(w, ("Ready", "True", "Available"))
            await set_provider_condition(w, "Available", "False", "InstanceCrashing")
            await until_instance_shows(w, ("Ready", "False", "InstanceCrashing"))


async def test_every_condition_of_a_ready_instance_has_its_generation() -> None:
    """``kubectl wait`` ignores a condition of an older generation, and removing the gate makes
    a new one."""
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            await set_provider_condition(w, "Programmed", "True", "Programmed")
            await set_provider_condition(w, "Available", "True", "Available")
            found = await until_instance_shows(w, GRANTED, ("Ready", "True", "Available"))

        generations = {
            each["type"]: each.get("observedGeneration")
            for each in values(found.status)["conditions"]
        }
        assert found.metadata.generation > 1
        assert generations["QuotaGranted"] == generations["Ready"] == found.metadata.generation


async def test_a_failed_network_takes_priority_over_the_gates() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
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
            await until_instance_shows(w, failed, gates="Network Quota")


async def test_without_quota_everything_is_granted_and_no_claim_is_made() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(without_quota(w)):
            await create(w)
            await until_instance_shows(w, WITHOUT_QUOTA)

        assert (await w.project.list(quota.RESOURCE_CLAIMS)).items == []
        assert (await w.hub.list(compute.INSTANCES)).items == []


async def test_the_first_status_of_an_instance_without_gates_waits_for_its_provider() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(without_quota(w)):
            made = await create(w, gates=())
            await asyncio.sleep(0.5)
            found = await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)
            assert found.metadata.resource_version == made.metadata.resource_version

            await set_provider_condition(w, "Programmed", "True", "Programmed")
            reported = ("Ready", "False", "Pending")
            await until_instance_shows(w, WITHOUT_QUOTA, reported, within=0.4)


async def test_an_instance_whose_provider_is_silent_has_a_status_after_a_second() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(without_quota(w)):
            await create(w, gates=())
            await until_instance_shows(
                w, WITHOUT_QUOTA, ("Ready", "False", "PendingProgramming"), within=1.5
            )


async def test_no_claim_is_created_until_the_namespace_has_its_labels() -> None:
    async with controller_planes() as w:
        await w.cell.create(core.NAMESPACES, {"metadata": {"name": w.hub_namespace, "labels": {}}})
        async with w.running(controller(w)):
            await create(w)
            await until_instance_shows(
                w, ("QuotaGranted", "Unknown", "PendingEvaluation"), gates="Quota"
            )
            labels = {
                compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-acme_demo",
                compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
            }
            body = {"metadata": {"labels": labels}}
            await w.cell.patch(core.NAMESPACES, w.hub_namespace, merge(body))
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)


async def test_an_instance_whose_namespace_names_no_project_says_so_until_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with controller_planes() as w:
        labels = {compute.LABEL_UPSTREAM_CLUSTER_NAME: "", compute.LABEL_UPSTREAM_NAMESPACE: "a"}
        body = {"metadata": {"name": w.hub_namespace, "labels": labels}}
        await w.cell.create(core.NAMESPACES, body)
        metrics = MetricsRegistry()
        with caplog.at_level(logging.INFO, "datum_compute.controllers"):
            async with w.running(controller(w, metrics=metrics)):
                await create(w)
                unresolvable = ("QuotaGranted", "False", "QuotaProjectIDUnresolvable")
                await until_instance_shows(w, unresolvable, gates="Quota", within=30)
                await settle(120)
                found = await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)
                assert w.hub_namespace in message(found, "QuotaGranted")
                events = (await w.cell.list(core.EVENTS, w.hub_namespace)).items
                assert any(b"QuotaProjectIDUnresolvable" in each.to_wire() for each in events)
                assert 'eval_failures_total{reason="project_id_unresolvable"}' in (render(metrics))

                named = {
                    compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-acme_demo",
                    compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
                }
                change = merge({"metadata": {"labels": named}})
                await w.cell.patch(core.NAMESPACES, w.hub_namespace, change)
                await answer_claim(w)
                await until_instance_shows(w, GRANTED)

        pending = [each for each in caplog.records if each.message.startswith("quota is pending")]
        assert 3 <= len(pending) <= 10, "each reconcile after the first minute, 15 seconds apart"
