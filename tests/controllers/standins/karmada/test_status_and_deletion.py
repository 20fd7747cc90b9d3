"""Status from members, deletion of templates and policies, and unreachable members."""

from __future__ import annotations

import asyncio

from datum_compute.api import karmada
from datum_compute.api.core import NAMESPACES
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.client.intercepted_transport import DISCONNECTED
from tests.support.objects import condition, exists, until, until_gone
from tests.support.standins.karmada import (
    BINDING,
    NAME,
    NS,
    WDS,
    propagated,
    report,
    until_ready,
    work_of,
)
from tests.support.standins.platform import StandinPlatform, deployment, settle


async def test_the_members_whole_status_becomes_the_templates_status() -> None:
    async with propagated() as found:
        await report(found, replicas=1, readyReplicas=1, location={"name": "dfw", "namespace": ""})
        hub = await until(
            found.hub, WDS, NAME, NS, lambda one: values(one.status).get("readyReplicas") == 1
        )
        await report(found, replicas=1, readyReplicas=0, location=None)
        later = await until(
            found.hub, WDS, NAME, NS, lambda one: values(one.status).get("readyReplicas") == 0
        )

        assert values(hub.status)["location"]["name"] == "dfw"
        assert "location" not in values(later.status)
        binding = await found.hub.get(karmada.RESOURCE_BINDINGS, BINDING, NS)
        item = values(binding.status)["aggregatedStatus"][0]
        assert (item["clusterName"], item["applied"]) == ("dfw", True)
        assert item["status"] == values(later.status)
        assert condition(binding, "FullyApplied") == ("True", "FullyAppliedSuccess")


async def test_without_an_interpreter_no_status_is_returned() -> None:
    async with propagated(interpreter=False) as found:
        await report(found, replicas=1)
        await until(
            found.hub,
            karmada.RESOURCE_BINDINGS,
            BINDING,
            NS,
            lambda one: "status" in values(one.status).get("aggregatedStatus", [{}])[0],
        )
        await settle()
        template = await found.hub.get(WDS, NAME, NS)

        assert values(template.status).get("replicas", 0) == 0


async def test_a_change_of_status_costs_one_write_at_each_hop() -> None:
    async with propagated() as found:
        await report(found, replicas=1)
        await until(found.hub, WDS, NAME, NS, lambda one: values(one.status).get("replicas") == 1)
        await settle()
        before = await _hub_revision(found)
        await report(found, replicas=2)
        await until(found.hub, WDS, NAME, NS, lambda one: values(one.status).get("replicas") == 2)
        await settle()

        # The Work, the binding, the template; one more is the triggering write.
        assert await _hub_revision(found) - before == 4


async def _hub_revision(found: StandinPlatform) -> int:
    """A counter of the hub's writes: each write, this one too, takes the next revision."""
    body = {"metadata": {"annotations": {"touched": str(found.env.new_uid())}}}
    written = await found.hub.patch(NAMESPACES, "default", merge(body))
    return int(written.metadata.resource_version)


async def test_deleting_the_template_removes_binding_work_and_the_members_object() -> None:
    async with propagated() as found:
        await found.hub.delete(WDS, NAME, NS)

        await until_gone(found.cells["dfw"], WDS, NAME, NS)
        await until_gone(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS)
        works = (await found.hub.list(karmada.WORKS, "karmada-es-dfw")).items
        assert [work.name for work in works if work.name.startswith(NAME)] == []


async def test_an_object_without_karmadas_label_outlives_its_template() -> None:
    async with propagated() as found:
        disowned = {"metadata": {"labels": {karmada.LABEL_MANAGED: None}}}
        found.links["dfw"].rules.append(DISCONNECTED)
        await found.cells["dfw"].patch(WDS, NAME, merge(disowned), NS)
        await until_ready(found, "False", within=90)
        await found.hub.delete(WDS, NAME, NS)
        found.links["dfw"].rules.clear()
        await until_gone(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS, within=120)

        assert not (await found.cells["dfw"].get(WDS, NAME, NS)).metadata.deleting


async def test_the_hub_does_not_wait_until_the_members_object_is_gone() -> None:
    async with propagated() as found:
        hold = {"metadata": {"finalizers": ["example.com/still-running"]}}
        await found.cells["dfw"].patch(WDS, NAME, merge(hold), NS)
        await found.hub.delete(WDS, NAME, NS)
        await until_gone(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS)

        member = await found.cells["dfw"].get(WDS, NAME, NS)
        assert member.metadata.deleting


async def test_a_recreated_template_is_propagated_again() -> None:
    async with propagated() as found:
        old = await found.cells["dfw"].get(WDS, NAME, NS)
        await found.hub.delete(WDS, NAME, NS)
        await until_gone(found.hub, WDS, NAME, NS)
        await found.hub.create(WDS, deployment(NAME, NS, "DFW", replicas=3), NS)
        new = await until(
            found.cells["dfw"],
            WDS,
            NAME,
            NS,
            lambda one: values(one.spec)["scaleSettings"]["minReplicas"] == 3,
        )

        hub = await found.hub.get(WDS, NAME, NS)
        assert new.metadata.annotations[karmada.ANNOTATION_TEMPLATE_UID] == hub.metadata.uid
        assert (
            old.metadata.annotations[karmada.ANNOTATION_TEMPLATE_UID]
            != new.metadata.annotations[karmada.ANNOTATION_TEMPLATE_UID]
        )


async def test_deleting_the_policy_does_not_unpropagate() -> None:
    async with propagated() as found:
        await found.hub.delete(karmada.PROPAGATION_POLICIES, "city-dfw", NS)
        await until_gone(found.hub, karmada.PROPAGATION_POLICIES, "city-dfw", NS)
        await settle()

        template = await found.hub.get(WDS, NAME, NS)
        assert karmada.LABEL_POLICY_ID not in template.metadata.labels
        assert karmada.ANNOTATION_POLICY_NAME not in template.metadata.annotations
        assert await exists(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS)
        assert await exists(found.cells["dfw"], WDS, NAME, NS)


async def test_an_object_deleted_by_hand_in_the_cell_is_recreated() -> None:
    async with propagated() as found:
        first = await found.cells["dfw"].get(WDS, NAME, NS)
        await found.cells["dfw"].delete(WDS, NAME, NS)

        await until(
            found.cells["dfw"],
            WDS,
            NAME,
            NS,
            lambda one: one.metadata.uid != first.metadata.uid,
        )


async def test_a_disconnected_cell_changes_its_readiness_after_thirty_seconds() -> None:
    async with propagated() as found:
        await until_ready(found, "True")
        found.links["dfw"].rules.append(DISCONNECTED)
        await asyncio.sleep(25)
        early = await found.hub.get(karmada.CLUSTERS, "dfw")
        lost = await until_ready(found, "False", within=30)
        found.links["dfw"].rules.clear()
        await asyncio.sleep(25)
        still = await found.hub.get(karmada.CLUSTERS, "dfw")

        assert condition(early, "Ready")[0] == "True"
        assert condition(lost, "Ready")[1] == karmada.REASON_CLUSTER_NOT_REACHABLE
        assert condition(still, "Ready")[0] == "False"
        await until_ready(found, "True", within=30)


async def test_deletion_waits_and_nothing_is_rescheduled_while_the_member_is_lost() -> None:
    async with propagated() as found:
        await report(found, replicas=1)
        await until(found.hub, WDS, NAME, NS, lambda one: values(one.status).get("replicas") == 1)
        found.links["dfw"].rules.append(DISCONNECTED)
        await until_ready(found, "False", within=90)
        frozen = await found.hub.get(WDS, NAME, NS)
        bound = await found.hub.get(karmada.RESOURCE_BINDINGS, BINDING, NS)
        await found.hub.delete(WDS, NAME, NS)
        await asyncio.sleep(300)
        work = await work_of(found)

        assert values(frozen.status)["replicas"] == 1
        assert values(bound.spec)["clusters"] == [{"name": "dfw"}]
        assert work.metadata.deleting
        assert await exists(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS)
        assert await exists(found.cells["dfw"], WDS, NAME, NS)
        found.links["dfw"].rules.clear()
        await until_gone(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS, within=120)
        await until_gone(found.cells["dfw"], WDS, NAME, NS)


async def test_changes_made_while_the_member_was_lost_arrive_on_reconnect() -> None:
    async with propagated() as found:
        found.links["dfw"].rules.append(DISCONNECTED)
        await until_ready(found, "False", within=90)
        change = {"spec": {"scaleSettings": {"minReplicas": 4}}}
        await found.hub.patch(WDS, NAME, merge(change), NS)
        await settle()
        before = await found.cells["dfw"].get(WDS, NAME, NS)
        found.links["dfw"].rules.clear()

        assert values(before.spec)["scaleSettings"]["minReplicas"] == 1
        await until(
            found.cells["dfw"],
            WDS,
            NAME,
            NS,
            lambda one: values(one.spec)["scaleSettings"]["minReplicas"] == 4,
            within=120,
        )


async def test_the_works_of_a_removed_cluster_are_deleted() -> None:
    async with propagated() as found:
        await found.hub.delete(karmada.CLUSTERS, "dfw")

        await until_gone(found.hub, karmada.CLUSTERS, "dfw")
        assert not await exists(found.hub, NAMESPACES, "karmada-es-dfw")
        binding = await until(
            found.hub,
            karmada.RESOURCE_BINDINGS,
            BINDING,
            NS,
            lambda one: condition(one, "Scheduled")[0] == "False",
        )
        assert values(binding.spec).get("clusters", []) == []


async def test_objects_in_a_lost_cluster_stay_when_it_is_removed() -> None:
    async with propagated() as found:
        found.links["dfw"].rules.append(DISCONNECTED)
        await until_ready(found, "False", within=90)
        await found.hub.delete(karmada.CLUSTERS, "dfw")
        await until_gone(found.hub, karmada.CLUSTERS, "dfw")

        assert await exists(found.cells["dfw"], WDS, NAME, NS)


async def test_many_status_changes_are_merged_into_few_writes_and_the_last_one_arrives() -> None:
    async with propagated() as found:
        await report(found, replicas=0)
        await settle()
        before = await _hub_revision(found)
        for replicas in range(1, 101):
            await report(found, replicas=replicas)
            await asyncio.sleep(0.05)
        await until(found.hub, WDS, NAME, NS, lambda one: values(one.status).get("replicas") == 100)
        hops = 3

        assert await _hub_revision(found) - before - 1 <= 20 * hops
