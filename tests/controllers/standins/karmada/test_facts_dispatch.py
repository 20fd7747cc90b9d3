"""Dispatch: from a template to the member.

Facts about Karmada that the stand-in reproduces, one per test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

from typing import Any

from datum_compute.api import karmada
from datum_compute.api.core import NAMESPACES
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.objects import condition, exists, until, until_gone
from tests.support.standins.karmada import (
    BINDING,
    BINDINGS,
    CLUSTERS,
    CRDS,
    HUB_KINDS,
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
    until_ready,
    work_of,
)
from tests.support.standins.platform import (
    CITY,
    build,
    create_cluster,
    create_policy,
    deployment,
    revisions,
    settle,
)


async def test_a_claimed_template_stays_with_its_policy() -> None:
    async with propagated() as found:
        selector = {"apiVersion": WDS.api_version, "kind": WDS.kind, "name": NAME}
        stronger = build(
            POLICIES,
            "stronger",
            NS,
            spec={"resourceSelectors": [selector], "priority": 9, "placement": {}},
        )
        await found.hub.create(POLICIES, stronger, NS)
        await settle()

        template = await found.hub.get(WDS, NAME, NS)
        assert template.metadata.annotations[karmada.ANNOTATION_POLICY_NAME] == "city-dfw"


async def test_a_change_of_the_templates_status_causes_no_other_write() -> None:
    async with propagated() as found:
        await settle()
        before = await revisions([found.hub], HUB_KINDS)
        written = await found.hub.patch(
            WDS,
            NAME,
            merge({"status": {"replicas": 7, "currentReplicas": 0, "desiredReplicas": 0}}),
            NS,
            subresource="status",
        )
        await settle()
        after = await revisions([found.hub], HUB_KINDS)

        changed = {key for key in after if after[key] != before.get(key)}
        assert len(changed) == 1
        assert written.metadata.resource_version in {after[key] for key in changed}


async def test_a_recreated_template_waits_until_its_old_binding_is_gone() -> None:
    async with propagated() as found:
        first = await found.hub.get(BINDINGS, BINDING, NS)
        hold = {"metadata": {"finalizers": [*first.metadata.finalizers, "example.com/hold"]}}
        await found.hub.patch(BINDINGS, BINDING, merge(hold), NS)
        await found.hub.delete(WDS, NAME, NS)
        await until_gone(found.hub, WDS, NAME, NS)
        await found.hub.create(WDS, deployment(NAME, NS, "DFW", replicas=3), NS)
        await settle()
        waiting = await found.hub.get(BINDINGS, BINDING, NS)
        release: dict[str, Any] = {"metadata": {"finalizers": []}}
        await found.hub.patch(BINDINGS, BINDING, merge(release), NS)
        template = await found.hub.get(WDS, NAME, NS)

        assert waiting.metadata.uid == first.metadata.uid
        await until(
            found.hub,
            BINDINGS,
            BINDING,
            NS,
            lambda one: values(one.spec)["resource"]["uid"] == template.metadata.uid,
        )


async def test_a_member_that_does_not_serve_the_kind_is_not_chosen() -> None:
    async with propagation() as found:
        cell = found.cells["dfw"]
        definition = await cell.get(CRDS, WDS.group_resource)
        await cell.delete(CRDS, WDS.group_resource)
        await until_gone(cell, CRDS, WDS.group_resource)
        await create_cluster(found.hub, "dfw", "DFW")
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        await until_ready(found, "True")
        await until(
            found.hub, BINDINGS, BINDING, NS, lambda one: condition(one, "Scheduled") == NO_FIT
        )
        await settle()
        assert not values((await found.hub.get(BINDINGS, BINDING, NS)).spec).get("clusters")
        again = build(CRDS, WDS.group_resource, spec=values(definition.spec))
        await cell.create(CRDS, again)

        await bound(found, "dfw")
        await until(cell, WDS, NAME, NS, lambda _: True)


async def test_a_member_that_has_the_template_keeps_it_when_it_no_longer_serves_the_kind() -> None:
    async with propagated() as found:
        await found.cells["dfw"].delete(CRDS, WDS.group_resource)
        await until(
            found.hub,
            CLUSTERS,
            "dfw",
            "",
            lambda one: WDS.kind not in bytes(one.status).decode(),
        )
        await settle()

        binding = await found.hub.get(BINDINGS, BINDING, NS)
        assert values(binding.spec)["clusters"] == [{"name": "dfw"}]


async def test_a_tainted_member_keeps_its_objects_and_gets_no_new_ones() -> None:
    async with propagated() as found:
        drained = {"key": "maintenance", "effect": "NoSchedule"}
        await change(found, CLUSTERS, "dfw", spec={"taints": [drained]})
        await found.hub.create(WDS, deployment("late", NS, "DFW"), NS)
        late = await until(
            found.hub,
            BINDINGS,
            "late-workloaddeployment",
            NS,
            lambda one: condition(one, "Scheduled") == NO_FIT,
        )

        assert not values(late.spec).get("clusters")
        await bound(found, "dfw")
        await change(found, CLUSTERS, "dfw", spec={"taints": []})
        await until(found.cells["dfw"], WDS, "late", NS, lambda _: True)


async def test_without_a_spread_constraint_all_matching_members_get_it() -> None:
    async with propagation() as found:
        for name in ("dfw", "lhr"):
            await create_cluster(found.hub, name, "DFW")
        await create_policy(found.hub, NS, "DFW")
        await change(found, POLICIES, "city-dfw", spec={"placement": {"spreadConstraints": None}})
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)

        await bound(found, "dfw", "lhr")
        for cell in found.cells.values():
            await until(cell, WDS, NAME, NS, lambda _: True)


async def test_a_spread_constraint_of_one_selects_one_member_and_keeps_it() -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "lhr", "DFW")
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        await bound(found, "lhr")
        await create_cluster(found.hub, "dfw", "DFW")
        await until_ready(found, "True")
        await settle()

        await bound(found, "lhr")
        assert not await exists(found.cells["dfw"], WDS, NAME, NS)


async def test_scheduled_has_reason_success_and_a_time() -> None:
    async with propagated() as found:
        binding = await until(
            found.hub,
            BINDINGS,
            BINDING,
            NS,
            lambda one: condition(one, "Scheduled") == ("True", "Success"),
        )

        assert values(binding.status)["lastScheduledTime"]


async def test_a_member_that_is_no_longer_targeted_loses_its_work() -> None:
    async with propagated() as found:
        await change(found, CLUSTERS, "dfw", metadata={"labels": {CITY: "ORD"}})
        await until_gone(found.cells["dfw"], WDS, NAME, NS)

        works = (await found.hub.list(WORKS, "karmada-es-dfw")).items
        assert not [work for work in works if work.name.startswith(NAME)]
        assert await exists(found.hub, WDS, NAME, NS)


async def test_a_manifest_has_no_owners_finalizers_or_server_fields() -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_policy(found.hub, NS, "DFW")
        namespace = await found.hub.get(NAMESPACES, NS)
        template = deployment(NAME, NS, "DFW")
        template["metadata"]["finalizers"] = ["example.com/hub-only"]
        template["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Namespace", "name": NS, "uid": namespace.metadata.uid}
        ]
        await found.hub.create(WDS, template, NS)
        await until(found.cells["dfw"], WDS, NAME, NS, lambda _: True)
        manifest = values((await work_of(found)).spec)["workload"]["manifests"][0]

        assert set(manifest) == {"apiVersion", "kind", "metadata", "spec"}
        assert set(manifest["metadata"]) == {"name", "namespace", "labels", "annotations"}


async def test_conflict_resolution_overwrite_takes_over_the_members_object() -> None:
    async with propagation() as found:
        dfw = found.cells["dfw"]
        await create_cluster(found.hub, "dfw", "DFW")
        await until(dfw, NAMESPACES, NS, "", lambda _: True)
        own = await dfw.create(WDS, deployment(NAME, NS, "DFW", replicas=7), NS)
        await create_policy(found.hub, NS, "DFW")
        await change(found, POLICIES, "city-dfw", spec={"conflictResolution": "Overwrite"})
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        taken = await until(
            dfw, WDS, NAME, NS, lambda one: karmada.LABEL_MANAGED in one.metadata.labels
        )

        assert taken.metadata.uid == own.metadata.uid
        assert values(taken.spec)["scaleSettings"]["minReplicas"] == 1


async def test_a_work_that_a_member_rejects_reports_applied_false() -> None:
    async with propagation() as found:
        dfw = found.cells["dfw"]
        await create_cluster(found.hub, "dfw", "DFW")
        await until(dfw, NAMESPACES, NS, "", lambda _: True)
        await dfw.create(WDS, deployment(NAME, NS, "DFW", replicas=7), NS)
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        await until(
            found.hub, BINDINGS, BINDING, NS, lambda one: condition(one, "FullyApplied")[0] != ""
        )

        assert condition(await work_of(found), "Applied") == ("False", "AppliedFailed")


async def test_a_work_with_suspended_dispatching_is_held_back_until_resumed() -> None:
    async with propagated() as found:
        work = await work_of(found)
        suspended = merge({"spec": {"suspendDispatching": True}})
        await found.hub.patch(WORKS, work.name, suspended, work.namespace)
        await change(found, WDS, NAME, spec={"scaleSettings": {"minReplicas": 6}})
        await until(
            found.hub,
            WORKS,
            work.name,
            work.namespace,
            lambda one: condition(one, "Dispatching") == ("False", "SuspendDispatching"),
        )
        await settle()
        held = await found.cells["dfw"].get(WDS, NAME, NS)
        resumed = merge({"spec": {"suspendDispatching": None}})
        await found.hub.patch(WORKS, work.name, resumed, work.namespace)

        assert values(held.spec)["scaleSettings"]["minReplicas"] == 1
        await until(
            found.hub,
            WORKS,
            work.name,
            work.namespace,
            lambda one: condition(one, "Dispatching") == ("True", "Dispatching"),
        )
        member = await found.cells["dfw"].get(WDS, NAME, NS)
        assert values(member.spec)["scaleSettings"]["minReplicas"] == 6
