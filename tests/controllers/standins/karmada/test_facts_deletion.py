"""Deletion, and the loss of a member.

Facts about Karmada that the stand-in reproduces, one per test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.karmada import karmada_controllers
from tests.support.client.intercepted_transport import DISCONNECTED
from tests.support.objects import condition, exists, until, until_gone
from tests.support.standins.karmada import (
    BINDING,
    BINDINGS,
    CLUSTERS,
    NAME,
    NO_FIT,
    NS,
    POLICIES,
    WDS,
    WORKS,
    bound,
    change,
    propagated,
    propagation,
    taints,
    until_ready,
    work_of,
)
from tests.support.standins.platform import (
    CITY,
    create_cluster,
    create_namespace,
    create_policy,
    deployment,
    running,
    settle,
    standin_platform,
)

# Deletion


async def test_preserved_resources_stay_in_the_member_without_karmadas_marks() -> None:
    async with propagated() as found:
        await change(found, POLICIES, "city-dfw", spec={"preserveResourcesOnDeletion": True})
        work = await work_of(found)
        await until(
            found.hub,
            WORKS,
            work.name,
            work.namespace,
            lambda one: values(one.spec).get("preserveResourcesOnDeletion") is True,
        )
        await found.hub.delete(WDS, NAME, NS)
        await until_gone(found.hub, BINDINGS, BINDING, NS)

        kept = await found.cells["dfw"].get(WDS, NAME, NS)
        assert not kept.metadata.deleting
        assert kept.metadata.labels == {CITY: "DFW"}
        assert list(kept.metadata.annotations) == [compute.ANNOTATION_SOURCE_GENERATION]


async def test_resources_that_are_no_longer_preserved_are_deleted_with_their_template() -> None:
    async with propagated() as found:
        work = await work_of(found)
        for preserve in (True, None):
            await change(
                found, POLICIES, "city-dfw", spec={"preserveResourcesOnDeletion": preserve}
            )
            await settle()
            carried = await found.hub.get(WORKS, work.name, work.namespace)
            assert values(carried.spec).get("preserveResourcesOnDeletion") == preserve
        await found.hub.delete(WDS, NAME, NS)

        await until_gone(found.cells["dfw"], WDS, NAME, NS)


async def test_a_template_deleted_right_after_its_creation_leaves_nothing_behind() -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_policy(found.hub, NS, "DFW")
        await until_ready(found, "True")
        for _ in range(5):
            await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
            await found.hub.delete(WDS, NAME, NS)
        await settle()

        assert (await found.hub.list(BINDINGS)).items == []
        works = (await found.hub.list(WORKS)).items
        assert not [work for work in works if work.name.startswith(NAME)]
        assert not await exists(found.cells["dfw"], WDS, NAME, NS)


async def test_a_deletion_missed_while_stopped_is_carried_out_later() -> None:
    async with standin_platform() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, NS)
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        controllers = karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            await until(found.cells["dfw"], WDS, NAME, NS, lambda _: True)
        await found.hub.delete(WDS, NAME, NS)
        held = await until(found.hub, BINDINGS, BINDING, NS, lambda one: one.metadata.deleting)
        controllers = karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            await until_gone(found.cells["dfw"], WDS, NAME, NS)
            await until_gone(found.hub, BINDINGS, BINDING, NS)

        assert held.metadata.finalizers == ("karmada.io/binding-controller",)


# Loss of a member


async def test_a_new_cluster_is_tainted_until_its_first_good_probe() -> None:
    async with propagation() as found:
        found.links["dfw"].rules.append(DISCONNECTED)
        await create_cluster(found.hub, "dfw", "DFW")
        tainted = await until(found.hub, CLUSTERS, "dfw", "", lambda one: taints(one) != [])
        found.links["dfw"].rules.clear()
        ready = await until_ready(found, "True")

        assert taints(tainted) == [("cluster.karmada.io/not-ready", "NoSchedule")]
        assert taints(ready) == []


async def test_a_cluster_carries_the_taint_while_it_is_not_ready() -> None:
    async with propagated() as found:
        cordon = {"key": "maintenance", "effect": "NoSchedule"}
        await change(found, CLUSTERS, "dfw", spec={"taints": [cordon]})
        found.links["dfw"].rules.append(DISCONNECTED)
        await until_ready(found, "False", within=90)
        lost = await until(found.hub, CLUSTERS, "dfw", "", lambda one: len(taints(one)) == 2)
        found.links["dfw"].rules.clear()
        back = await until_ready(found, "True", within=90)

        assert ("cluster.karmada.io/not-ready", "NoSchedule") in taints(lost)
        assert taints(back) == [("maintenance", "NoSchedule")]


async def test_nothing_new_is_scheduled_to_a_member_that_is_not_ready() -> None:
    async with propagated() as found:
        found.links["dfw"].rules.append(DISCONNECTED)
        await until_ready(found, "False", within=90)
        await found.hub.create(WDS, deployment("late", NS, "DFW"), NS)

        await until(
            found.hub,
            BINDINGS,
            "late-workloaddeployment",
            NS,
            lambda one: condition(one, "Scheduled") == NO_FIT,
        )


async def test_objects_are_removed_from_a_ready_cluster_that_is_unjoined() -> None:
    async with propagated() as found:
        await found.hub.delete(CLUSTERS, "dfw")

        await until_gone(found.cells["dfw"], WDS, NAME, NS)
        await until_gone(found.hub, CLUSTERS, "dfw")


async def test_a_cluster_is_removed_only_when_no_binding_targets_it() -> None:
    async with standin_platform() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, NS)
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        controllers = karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            await bound(found, "dfw")
        controllers = karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        unscheduled = [one for one in controllers if one.name != "propagation-binding"]
        async with running(found.env, unscheduled):
            await found.hub.delete(CLUSTERS, "dfw")
            await until_gone(found.hub, NAMESPACES, "karmada-es-dfw")
            await settle()
            assert await exists(found.hub, CLUSTERS, "dfw")
            await change(found, BINDINGS, BINDING, spec={"clusters": []})

            await until_gone(found.hub, CLUSTERS, "dfw")
