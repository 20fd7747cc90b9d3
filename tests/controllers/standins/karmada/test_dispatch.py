"""From a template on the hub to an object in the member."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.karmada import karmada_controllers
from tests.support.objects import condition, exists, until, until_gone
from tests.support.standins.platform import (
    CITY,
    StandinPlatform,
    build,
    create_cluster,
    create_namespace,
    create_policy,
    deployment,
    in_order,
    revisions,
    running,
    settle,
    standin_platform,
    upstream_labels,
)

NS = "ns-1"
BINDING = "app-web-dfw-workloaddeployment"
WDS = compute.WORKLOAD_DEPLOYMENTS


@asynccontextmanager
async def federation(*, clusters: bool = True) -> AsyncIterator[StandinPlatform]:
    """A hub with both cells joined, one synchronized namespace, and propagation running."""
    async with standin_platform() as found:
        if clusters:
            await create_cluster(found.hub, "dfw", "DFW")
            await create_cluster(found.hub, "lhr", "LHR")
        await create_namespace(found.hub, NS, upstream_labels())
        controllers = karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            yield found


async def in_dfw(found: StandinPlatform, name: str = "app-web-dfw") -> Object:
    return await until(found.cells["dfw"], WDS, name, NS, lambda _: True)


def is_there(_: Object) -> bool:
    return True


def scheduled(binding: Object) -> bool:
    return condition(binding, karmada.CONDITION_SCHEDULED) == ("True", "Success")


@pytest.mark.parametrize("policy_first", [True, False])
async def test_a_claimed_template_reaches_its_member_in_any_order_of_creation(
    policy_first: bool,
) -> None:
    async with federation() as found:
        template = deployment("app-web-dfw", NS, "DFW")
        policy = create_policy(found.hub, NS, "DFW")
        create = found.hub.create(WDS, template, NS)
        await (
            in_order(policy, settle(), create)
            if policy_first
            else in_order(create, settle(), policy)
        )
        member = await in_dfw(found)

        assert values(member.spec) == values((await found.hub.get(WDS, "app-web-dfw", NS)).spec)
        assert not await exists(found.cells["lhr"], WDS, "app-web-dfw", NS)


async def test_binding_work_and_object_carry_karmadas_labels_and_annotations() -> None:
    async with federation() as found:
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment("app-web-dfw", NS, "DFW"), NS)
        member = await in_dfw(found)
        policy = await found.hub.get(karmada.PROPAGATION_POLICIES, "city-dfw", NS)
        template = await found.hub.get(WDS, "app-web-dfw", NS)
        binding = await until(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS, scheduled)
        works = (await found.hub.list(karmada.WORKS, "karmada-es-dfw")).items
        work = next(one for one in works if one.name.startswith("app-web-dfw-"))

        policy_id = policy.metadata.labels[karmada.LABEL_POLICY_ID]
        assert karmada.FINALIZER_POLICY in policy.metadata.finalizers
        assert values(policy.spec)["resourceSelectors"][0]["namespace"] == NS
        for obj in (template, binding, member):
            assert obj.metadata.labels[karmada.LABEL_POLICY_ID] == policy_id
            assert obj.metadata.annotations[karmada.ANNOTATION_POLICY_NAME] == "city-dfw"
        owner = binding.metadata.controller()
        assert owner is not None
        assert owner.uid == template.metadata.uid
        assert binding.metadata.finalizers == (karmada.FINALIZER_BINDING,)
        assert values(binding.spec)["clusters"] == [{"name": "dfw"}]
        assert karmada.ANNOTATION_APPLIED_PLACEMENT in binding.metadata.annotations
        assert work.metadata.finalizers == (karmada.FINALIZER_EXECUTION,)
        assert work.metadata.owner_references == ()
        assert (
            work.metadata.labels[karmada.LABEL_BINDING_ID]
            == binding.metadata.labels[karmada.LABEL_BINDING_ID]
            == member.metadata.labels[karmada.LABEL_BINDING_ID]
        )
        assert member.metadata.labels[karmada.LABEL_MANAGED] == "true"
        assert member.metadata.annotations[karmada.ANNOTATION_WORK_NAME] == work.name
        assert member.metadata.annotations[karmada.ANNOTATION_TEMPLATE_UID] == template.metadata.uid
        assert member.metadata.annotations[compute.ANNOTATION_SOURCE_GENERATION] == "1"


async def test_owners_and_finalizers_of_the_template_are_not_propagated() -> None:
    async with federation() as found:
        await create_policy(found.hub, NS, "DFW")
        template = deployment("app-web-dfw", NS, "DFW")
        template["metadata"]["finalizers"] = ["example.com/hub-only"]
        await found.hub.create(WDS, template, NS)
        member = await in_dfw(found)

        assert member.metadata.finalizers == ()
        assert member.metadata.owner_references == ()


async def test_an_orphaned_binding_is_adopted_by_the_recreated_template() -> None:
    """A template deleted with ``--cascade=orphan`` leaves a binding without an owner, which
    would never be collected."""
    async with federation() as found:
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment("app-web-dfw", NS, "DFW"), NS)
        member = await in_dfw(found)
        left = await until(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS, scheduled)
        await found.hub.delete(WDS, "app-web-dfw", NS, propagation="Orphan")
        await until_gone(found.hub, WDS, "app-web-dfw", NS)
        body = deployment("app-web-dfw", NS, "DFW")
        body["spec"]["scaleSettings"]["minReplicas"] = 3
        made = await found.hub.create(WDS, body, NS)
        binding = await until(
            found.hub,
            karmada.RESOURCE_BINDINGS,
            BINDING,
            NS,
            lambda obj: [each.uid for each in obj.metadata.owner_references] == [made.metadata.uid],
        )
        after = await until(
            found.cells["dfw"],
            WDS,
            "app-web-dfw",
            NS,
            lambda obj: values(obj.spec)["scaleSettings"]["minReplicas"] == 3,
        )

        assert binding.metadata.uid == left.metadata.uid
        assert after.metadata.uid == member.metadata.uid, "what ran there, runs on"


async def test_a_binding_that_lost_its_owner_gets_it_back_when_its_template_changes() -> None:
    async with federation() as found:
        await create_policy(found.hub, NS, "DFW")
        made = await found.hub.create(WDS, deployment("app-web-dfw", NS, "DFW"), NS)
        await until(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS, scheduled)
        body: dict[str, Any] = {"metadata": {"ownerReferences": []}}
        await found.hub.patch(karmada.RESOURCE_BINDINGS, BINDING, merge(body), NS)
        await settle()
        left = await found.hub.get(karmada.RESOURCE_BINDINGS, BINDING, NS)
        assert left.metadata.owner_references == ()

        body = {"metadata": {"annotations": {"example.com/looked-at": "again"}}}
        await found.hub.patch(WDS, "app-web-dfw", merge(body), NS)
        await until(
            found.hub,
            karmada.RESOURCE_BINDINGS,
            BINDING,
            NS,
            lambda obj: [each.uid for each in obj.metadata.owner_references] == [made.metadata.uid],
        )


async def test_a_binding_has_no_cluster_fit_until_a_cell_joins() -> None:
    async with federation(clusters=False) as found:
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment("app-web-dfw", NS, "DFW"), NS)
        await until(
            found.hub,
            karmada.RESOURCE_BINDINGS,
            BINDING,
            NS,
            lambda one: condition(one, "Scheduled") == ("False", karmada.REASON_NO_CLUSTER_FIT),
        )
        await create_cluster(found.hub, "dfw", "DFW")

        await in_dfw(found)
        await until(found.hub, karmada.RESOURCE_BINDINGS, BINDING, NS, scheduled)


async def test_namespaces_are_propagated_to_every_member_with_their_labels() -> None:
    async with federation() as found:
        for cell in found.cells.values():
            namespace = await until(cell, NAMESPACES, NS, "", is_there)
            assert upstream_labels().items() <= namespace.metadata.labels.items()
        namespace = await found.hub.get(NAMESPACES, NS)
        body = {"metadata": {"labels": {"team": "blue"}}}
        await found.hub.patch(NAMESPACES, NS, merge(body))

        await until(
            found.cells["lhr"],
            NAMESPACES,
            NS,
            "",
            lambda one: one.metadata.labels.get("team") == "blue",
        )


async def test_reserved_and_opted_out_namespaces_are_not_propagated() -> None:
    async with federation() as found:
        await create_namespace(found.hub, "karmada-system")
        await create_namespace(found.hub, "home", {karmada.LABEL_SKIP_NAMESPACE: "true"})
        await create_namespace(found.hub, "ns-2")
        await until(found.cells["dfw"], NAMESPACES, "ns-2", "", is_there)
        await settle()

        names = {one.name for one in (await found.cells["dfw"].list(NAMESPACES)).items}
        assert names & {"karmada-system", "karmada-es-dfw", "home"} == set()
        works = (await found.hub.list(karmada.WORKS, "karmada-es-dfw")).items
        carried = {work.name.rpartition("-")[0] for work in works}
        assert carried == {NS, "ns-2"}


async def test_a_deleted_hub_namespace_is_deleted_in_the_members() -> None:
    async with federation() as found:
        await until(found.cells["dfw"], NAMESPACES, NS, "", is_there)
        await found.hub.delete(NAMESPACES, NS)

        await until_gone(found.cells["dfw"], NAMESPACES, NS)
        await until_gone(found.cells["lhr"], NAMESPACES, NS)


async def test_drift_of_the_spec_is_reverted_and_fields_of_the_member_are_kept() -> None:
    async with federation() as found:
        dfw = found.cells["dfw"]
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment("app-web-dfw", NS, "DFW", replicas=2), NS)
        await in_dfw(found)
        drift = {
            "metadata": {"labels": {"cell": "own"}, "finalizers": ["example.com/cell"]},
            "spec": {"scaleSettings": {"minReplicas": 9}},
        }
        await dfw.patch(WDS, "app-web-dfw", merge(drift), NS)
        member = await until(
            dfw,
            WDS,
            "app-web-dfw",
            NS,
            lambda one: values(one.spec)["scaleSettings"]["minReplicas"] == 2,
        )

        assert member.metadata.labels["cell"] == "own"
        assert member.metadata.finalizers == ("example.com/cell",)


async def test_a_change_of_the_template_is_propagated_and_a_removed_label_is_removed() -> None:
    async with federation() as found:
        await create_policy(found.hub, NS, "DFW")
        template = deployment("app-web-dfw", NS, "DFW", labels={"old": "1"})
        await found.hub.create(WDS, template, NS)
        await in_dfw(found)
        change = {
            "metadata": {"labels": {"old": None, "new": "1"}},
            "spec": {"scaleSettings": {"minReplicas": 5}},
        }
        await found.hub.patch(WDS, "app-web-dfw", merge(change), NS)
        member = await until(
            found.cells["dfw"], WDS, "app-web-dfw", NS, lambda one: "new" in one.metadata.labels
        )

        assert "old" not in member.metadata.labels
        assert member.metadata.labels[CITY] == "DFW"
        assert values(member.spec)["scaleSettings"]["minReplicas"] == 5


async def test_an_object_of_the_members_own_is_not_touched() -> None:
    async with federation() as found:
        dfw = found.cells["dfw"]
        await until(dfw, NAMESPACES, NS, "", is_there)
        own = await dfw.create(WDS, deployment("app-web-dfw", NS, "DFW", replicas=7), NS)
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment("app-web-dfw", NS, "DFW"), NS)
        binding = await until(
            found.hub,
            karmada.RESOURCE_BINDINGS,
            BINDING,
            NS,
            lambda one: condition(one, "FullyApplied")[0] == "False",
        )

        kept = await dfw.get(WDS, "app-web-dfw", NS)
        assert kept.metadata.resource_version == own.metadata.resource_version
        item = values(binding.status)["aggregatedStatus"][0]
        assert item["applied"] is False
        assert "not managed by Karmada" in item["appliedMessage"]


async def test_a_restart_writes_nothing() -> None:
    async with standin_platform() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, NS, upstream_labels())
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment("app-web-dfw", NS, "DFW"), NS)
        planes = [found.hub, *found.cells.values()]
        kinds = [
            karmada.CLUSTERS,
            karmada.PROPAGATION_POLICIES,
            karmada.RESOURCE_BINDINGS,
            karmada.WORKS,
            NAMESPACES,
            WDS,
        ]
        seen = []
        for _ in range(2):
            controllers = karmada_controllers(found.hub_fleet(), found.member_fleet(), found.env)
            async with running(found.env, controllers):
                await in_dfw(found)
                await settle()
                seen.append(await revisions(planes, kinds))

        assert seen[0] == seen[1]


async def test_of_several_policies_the_higher_priority_then_the_narrower_selector_wins() -> None:
    async with federation() as found:
        for name, priority, labels in (
            ("wide", 0, None),
            ("narrow", 0, {"matchLabels": {CITY: "DFW"}}),
            ("first", 5, None),
        ):
            selector = {"apiVersion": WDS.api_version, "kind": WDS.kind}
            if labels:
                selector["labelSelector"] = labels  # type: ignore[assignment]
            body = build(
                karmada.PROPAGATION_POLICIES,
                name,
                NS,
                spec={"resourceSelectors": [selector], "priority": priority, "placement": {}},
            )
            await found.hub.create(karmada.PROPAGATION_POLICIES, body, NS)
        await settle()
        await found.hub.create(WDS, deployment("a", NS, "DFW"), NS)
        claimed = await until(
            found.hub, WDS, "a", NS, lambda one: karmada.LABEL_POLICY_ID in one.metadata.labels
        )
        await found.hub.delete(karmada.PROPAGATION_POLICIES, "first", NS)
        await until_gone(found.hub, karmada.PROPAGATION_POLICIES, "first", NS)
        again = await until(
            found.hub,
            WDS,
            "a",
            NS,
            lambda one: one.metadata.annotations.get(karmada.ANNOTATION_POLICY_NAME) == "narrow",
        )

        assert claimed.metadata.annotations[karmada.ANNOTATION_POLICY_NAME] == "first"
        assert again.metadata.uid == claimed.metadata.uid
