"""What is known of Karmada and the stand-in keeps, one fact a test.

The table in ``docs/concepts/stand-ins.md`` says which test keeps which fact; many are kept by
the tests next to this file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import EventType, merge
from datum_compute.client.transport import Request, Response
from datum_compute.fleets.static import StaticFleet
from datum_compute.platform.apiserver import routing
from datum_compute.platform.propagation import propagation_controllers
from datum_compute.runtime.patch import values
from tests.controllers.standins.test_propagation_up_and_out import (
    BINDING,
    NAME,
    NS,
    WDS,
    propagated,
    report,
    until_ready,
    work_of,
)
from tests.controllers.standins.world import (
    CITY,
    World,
    build,
    condition,
    create_cluster,
    create_interpreter,
    create_namespace,
    create_policy,
    deployment,
    exists,
    revisions,
    running,
    settle,
    until,
    until_gone,
    upstream_labels,
    world,
)

BINDINGS, WORKS, CLUSTERS = karmada.RESOURCE_BINDINGS, karmada.WORKS, karmada.CLUSTERS
POLICIES = karmada.PROPAGATION_POLICIES
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
HUB_KINDS = (CLUSTERS, POLICIES, BINDINGS, WORKS, NAMESPACES, WDS)
NO_FIT = ("False", karmada.REASON_NO_CLUSTER_FIT)


@asynccontextmanager
async def propagation() -> AsyncIterator[World]:
    """A hub with one synchronized namespace and nothing else, and propagation at work."""
    async with world() as found:
        await create_namespace(found.hub, NS, upstream_labels())
        controllers = propagation_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            yield found


async def change(found: World, resource: Resource, name: str, **parts: Any) -> Object:
    namespace = NS if resource.namespaced else ""
    return await found.hub.patch(resource, name, merge(parts), namespace)


async def bound(found: World, *clusters: str) -> Object:
    """The binding once it targets exactly these."""
    return await until(
        found.hub,
        BINDINGS,
        BINDING,
        NS,
        lambda one: (
            [each["name"] for each in values(one.spec).get("clusters", [])] == list(clusters)
        ),
    )


def taints(cluster: Object) -> list[tuple[str, str]]:
    return [(one["key"], one["effect"]) for one in values(cluster.spec).get("taints", [])]


# 1.3 Names, labels, annotations, finalizers


async def test_works_lie_in_a_namespace_named_after_the_cluster() -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "dfw", "DFW")

        await until(found.hub, NAMESPACES, "karmada-es-dfw", "", lambda _: True)


@pytest.mark.parametrize("namespace", ["kube-public", "karmada-system", "karmada-cluster"])
async def test_nothing_in_a_reserved_namespace_is_propagated(namespace: str) -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, namespace)
        await create_policy(found.hub, namespace, "DFW")
        await found.hub.create(WDS, deployment(NAME, namespace, "DFW"), namespace)
        await until_ready(found, "True")
        await settle()

        assert (await found.hub.list(BINDINGS)).items == []
        assert not await exists(found.cells["dfw"], NAMESPACES, namespace)


async def test_namespace_default_is_not_synchronized() -> None:
    async with propagated() as found:
        labels = {"metadata": {"labels": {"team": "blue"}}}
        await found.hub.patch(NAMESPACES, "default", merge(labels))
        await settle()

        assert "team" not in (await found.cells["dfw"].get(NAMESPACES, "default")).metadata.labels
        works = (await found.hub.list(WORKS, "karmada-es-dfw")).items
        assert not [work for work in works if work.name.startswith("default-")]


def test_a_binding_is_named_after_object_and_kind_in_lower_case_without_colons() -> None:
    assert karmada.binding_name("app-web-dfw", "WorkloadDeployment") == BINDING
    assert karmada.binding_name("system:app", "Role") == "system.app-role"


async def test_the_claim_is_a_label_and_two_annotations_on_template_and_binding() -> None:
    async with propagated() as found:
        policy = await found.hub.get(POLICIES, "city-dfw", NS)
        template = await found.hub.get(WDS, NAME, NS)
        binding = await found.hub.get(BINDINGS, BINDING, NS)

        for obj in (template, binding):
            assert (
                obj.metadata.labels[karmada.LABEL_POLICY_ID]
                == policy.metadata.labels[karmada.LABEL_POLICY_ID]
            )
            assert obj.metadata.annotations[karmada.ANNOTATION_POLICY_NAMESPACE] == NS
            assert obj.metadata.annotations[karmada.ANNOTATION_POLICY_NAME] == "city-dfw"


async def test_a_binding_has_an_id_a_finalizer_the_placement_and_the_template_as_controller() -> (
    None
):
    async with propagated() as found:
        template = await found.hub.get(WDS, NAME, NS)
        binding = await found.hub.get(BINDINGS, BINDING, NS)

        assert binding.metadata.labels["resourcebinding.karmada.io/permanent-id"]
        assert binding.metadata.finalizers == ("karmada.io/binding-controller",)
        assert "policy.karmada.io/applied-placement" in binding.metadata.annotations
        owner = binding.metadata.controller()
        assert owner is not None
        assert owner.uid == template.metadata.uid


async def test_the_name_of_the_policy_is_an_annotation_and_not_a_label() -> None:
    async with propagated() as found:
        for resource, name in ((WDS, NAME), (BINDINGS, BINDING)):
            obj = await found.hub.get(resource, name, NS)
            assert "propagationpolicy.karmada.io/name" in obj.metadata.annotations
            assert "propagationpolicy.karmada.io/name" not in obj.metadata.labels


async def test_a_policy_gets_its_id_its_finalizer_and_the_namespace_of_its_selectors() -> None:
    async with propagation() as found:
        await create_policy(found.hub, NS, "DFW")
        policy = await until(
            found.hub, POLICIES, "city-dfw", NS, lambda one: one.metadata.finalizers != ()
        )

        assert policy.metadata.labels["propagationpolicy.karmada.io/permanent-id"]
        assert policy.metadata.finalizers == ("karmada.io/propagation-policy-controller",)
        selectors = values(policy.spec)["resourceSelectors"]
        assert [selector["namespace"] for selector in selectors] == [NS]


async def test_a_work_has_ids_a_finalizer_and_the_name_of_its_binding_and_no_owner() -> None:
    async with propagated() as found:
        binding = await found.hub.get(BINDINGS, BINDING, NS)
        work = await work_of(found)

        assert work.metadata.finalizers == ("karmada.io/execution-controller",)
        assert work.metadata.labels["work.karmada.io/permanent-id"]
        assert (
            work.metadata.labels["resourcebinding.karmada.io/permanent-id"]
            == binding.metadata.labels["resourcebinding.karmada.io/permanent-id"]
        )
        assert work.metadata.annotations["resourcebinding.karmada.io/namespace"] == NS
        assert work.metadata.annotations["resourcebinding.karmada.io/name"] == BINDING
        assert work.metadata.owner_references == ()


async def test_the_work_of_a_namespace_is_controlled_by_the_hub_namespace() -> None:
    async with propagated() as found:
        namespace = await found.hub.get(NAMESPACES, NS)
        works = (await found.hub.list(WORKS, "karmada-es-dfw")).items
        carrier = next(work for work in works if work.name.startswith(f"{NS}-"))
        owner = carrier.metadata.controller()

        assert owner is not None
        assert (owner.kind, owner.uid) == ("Namespace", namespace.metadata.uid)
        assert karmada.ANNOTATION_BINDING_NAME not in carrier.metadata.annotations


async def test_a_cluster_holds_its_finalizer() -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        cluster = await until_ready(found, "True")

        assert cluster.metadata.finalizers == ("karmada.io/cluster-controller",)


async def test_the_members_object_carries_where_it_came_from() -> None:
    async with propagated() as found:
        template = await found.hub.get(WDS, NAME, NS)
        work = await work_of(found)
        member = await found.cells["dfw"].get(WDS, NAME, NS)
        labels, annotations = member.metadata.labels, member.metadata.annotations

        assert labels["karmada.io/managed"] == "true"
        for key in ("resourcebinding.karmada.io/permanent-id", "work.karmada.io/permanent-id"):
            assert labels[key] == work.metadata.labels[key]
        assert annotations["work.karmada.io/namespace"] == "karmada-es-dfw"
        assert annotations["work.karmada.io/name"] == work.name
        assert annotations["resourcebinding.karmada.io/namespace"] == NS
        assert annotations["resourcebinding.karmada.io/name"] == BINDING
        assert annotations["resourcetemplate.karmada.io/uid"] == template.metadata.uid
        generation = annotations["resourcetemplate.karmada.io/generation"]
        assert generation == str(template.metadata.generation)
        assert CITY in annotations["resourcetemplate.karmada.io/managed-labels"].split(",")
        assert "resourcetemplate.karmada.io/managed-annotations" in annotations
        assert template.metadata.labels.items() <= labels.items()
        assert template.metadata.annotations.items() <= annotations.items()


async def test_a_policy_without_its_id_claims_nothing() -> None:
    async with world() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, NS)
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        controllers = propagation_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        without_admission = [one for one in controllers if one.name != "propagation-policy"]
        async with running(found.env, without_admission):
            await until_ready(found, "True")
            await settle()

        assert (await found.hub.list(BINDINGS)).items == []


# 1.4 Downward flow


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


async def test_a_change_of_the_templates_status_alone_sets_nothing_off() -> None:
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


async def test_the_binding_of_a_deleted_template_of_the_same_name_is_waited_for() -> None:
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


async def test_a_tainted_member_gets_nothing_new_and_keeps_what_it_has() -> None:
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


async def test_a_spread_constraint_of_one_takes_one_member_and_stays_with_it() -> None:
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


async def test_scheduled_says_success_and_when() -> None:
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


async def test_a_manifest_has_nothing_of_the_hubs_own_copy() -> None:
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


async def test_conflict_resolution_overwrite_takes_the_members_object_over() -> None:
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


async def test_a_work_the_member_does_not_take_says_applied_failed() -> None:
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


async def test_a_work_whose_dispatching_is_suspended_is_held_back_and_says_so() -> None:
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


# 1.5 Upward flow and timing


async def test_status_goes_up_in_less_than_a_second_without_polling() -> None:
    async with propagated() as found:
        await settle()
        await report(found, replicas=3)

        await until(
            found.hub,
            WDS,
            NAME,
            NS,
            lambda one: values(one.status).get("replicas") == 3,
            within=1.0,
        )


async def test_the_members_status_is_in_the_work_with_its_identity() -> None:
    async with propagated() as found:
        await report(found, replicas=3)
        await until(found.hub, WDS, NAME, NS, lambda one: values(one.status).get("replicas") == 3)
        status = values((await work_of(found)).status)["manifestStatuses"][0]

        assert status["status"]["replicas"] == 3
        assert status["identifier"] == {
            "ordinal": 0,
            "group": WDS.group,
            "version": WDS.version,
            "kind": WDS.kind,
            "resource": WDS.plural,
            "namespace": NS,
            "name": NAME,
        }


async def test_of_several_members_the_first_by_name_speaks() -> None:
    async with propagation() as found:
        for name in ("lhr", "dfw"):
            await create_cluster(found.hub, name, "DFW")
        await create_interpreter(found.hub)
        await create_policy(found.hub, NS, "DFW")
        await change(found, POLICIES, "city-dfw", spec={"placement": {"spreadConstraints": None}})
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        for name, replicas in (("lhr", 5), ("dfw", 2)):
            await until(found.cells[name], WDS, NAME, NS, lambda _: True)
            status = {"replicas": replicas, "currentReplicas": 0, "desiredReplicas": 0}
            await found.cells[name].patch(
                WDS, NAME, merge({"status": status}), NS, subresource="status"
            )

        await until(
            found.hub,
            BINDINGS,
            BINDING,
            NS,
            lambda one: (
                [
                    (item["clusterName"], item.get("status", {}).get("replicas"))
                    for item in values(one.status).get("aggregatedStatus", [])
                ]
                == [("dfw", 2), ("lhr", 5)]
            ),
        )
        await until(found.hub, WDS, NAME, NS, lambda one: values(one.status).get("replicas") == 2)


async def test_nothing_is_written_again_while_nothing_changes() -> None:
    async with propagated() as found:
        await report(found, replicas=1)
        await settle()
        planes = [found.hub, *found.cells.values()]
        before = await revisions(planes, HUB_KINDS)
        await asyncio.sleep(3600)

        assert await revisions(planes, HUB_KINDS) == before


class OnlyHealthz:
    """A member as old API servers are: it has ``/healthz`` and no ``/readyz``."""

    def __init__(self, inner: InProcessTransport) -> None:
        self._inner = inner
        self.asked: list[str] = []

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        if request.path.endswith(("/readyz", "/healthz")):
            self.asked.append(request.path.rpartition("/")[2])
        if request.path.endswith("/readyz"):
            return Response(404, {"content-type": "text/plain"}, b"404 page not found")
        return await self._inner.send(request, timeout=timeout)

    async def close(self) -> None:
        await self._inner.close()


async def test_a_member_is_asked_for_readyz_and_where_that_is_missing_for_healthz() -> None:
    async with world() as found:
        transport = OnlyHealthz(InProcessTransport(found.embedded.server.handle))
        old = ApiClient(
            transport,
            cluster="dfw",
            prefix=routing.plane_prefix("cell/dfw"),
            token=found.embedded.token(),
        )
        members = StaticFleet("members", {"dfw": old}, found.env)
        async with running(
            found.env, propagation_controllers(found.hub_fleet(), members, found.env)
        ):
            await create_cluster(found.hub, "dfw", "DFW")
            await until_ready(found, "True")

        assert transport.asked[:2] == ["readyz", "healthz"]


class Moody:
    """A member that sometimes cannot list what it serves."""

    def __init__(self, inner: InProcessTransport) -> None:
        self._inner = inner
        self.lists = True

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        if not self.lists and request.path.endswith(f"/apis/{WDS.api_version}"):
            return Response(503, {"content-type": "text/plain"}, b"not now")
        return await self._inner.send(request, timeout=timeout)

    async def close(self) -> None:
        await self._inner.close()


async def test_kinds_that_could_not_be_listed_stay_as_they_were_known() -> None:
    async with world() as found:
        transport = Moody(InProcessTransport(found.embedded.server.handle))
        moody = ApiClient(
            transport,
            cluster="dfw",
            prefix=routing.plane_prefix("cell/dfw"),
            token=found.embedded.token(),
        )
        members = StaticFleet("members", {"dfw": moody}, found.env)
        async with running(
            found.env, propagation_controllers(found.hub_fleet(), members, found.env)
        ):
            await create_cluster(found.hub, "dfw", "DFW")
            known = await until_ready(found, "True")
            transport.lists = False
            partial = await until(
                found.hub,
                CLUSTERS,
                "dfw",
                "",
                lambda one: condition(one, "CompleteAPIEnablements") == ("False", "Partial"),
            )

        assert condition(known, "CompleteAPIEnablements") == ("True", "Complete")
        served = values(known.status)["apiEnablements"]
        assert WDS.kind in [one["kind"] for one in served[0]["resources"]]
        assert values(partial.status)["apiEnablements"] == served


# 1.6 Deletion


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


async def test_what_is_no_longer_to_be_preserved_goes_with_its_template() -> None:
    async with propagated() as found:
        work = await work_of(found)
        for wish in (True, None):
            await change(found, POLICIES, "city-dfw", spec={"preserveResourcesOnDeletion": wish})
            await settle()
            carried = await found.hub.get(WORKS, work.name, work.namespace)
            assert values(carried.spec).get("preserveResourcesOnDeletion") == wish
        await found.hub.delete(WDS, NAME, NS)

        await until_gone(found.cells["dfw"], WDS, NAME, NS)


async def test_a_template_that_lived_for_an_instant_leaves_nothing_behind() -> None:
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


async def test_a_deletion_while_nobody_looked_is_made_up_for() -> None:
    async with world() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, NS)
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        controllers = propagation_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            await until(found.cells["dfw"], WDS, NAME, NS, lambda _: True)
        await found.hub.delete(WDS, NAME, NS)
        held = await until(found.hub, BINDINGS, BINDING, NS, lambda one: one.metadata.deleting)
        controllers = propagation_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            await until_gone(found.cells["dfw"], WDS, NAME, NS)
            await until_gone(found.hub, BINDINGS, BINDING, NS)

        assert held.metadata.finalizers == ("karmada.io/binding-controller",)


# 1.7 Loss of a member


async def test_a_new_cluster_is_tainted_until_its_first_good_probe() -> None:
    async with propagation() as found:
        found.ways["dfw"].cut = True
        await create_cluster(found.hub, "dfw", "DFW")
        tainted = await until(found.hub, CLUSTERS, "dfw", "", lambda one: taints(one) != [])
        found.ways["dfw"].cut = False
        ready = await until_ready(found, "True")

        assert taints(tainted) == [("cluster.karmada.io/not-ready", "NoSchedule")]
        assert taints(ready) == []


async def test_a_cluster_that_is_not_ready_carries_the_taint_until_it_is_back() -> None:
    async with propagated() as found:
        cordon = {"key": "maintenance", "effect": "NoSchedule"}
        await change(found, CLUSTERS, "dfw", spec={"taints": [cordon]})
        found.ways["dfw"].cut = True
        await until_ready(found, "False", within=90)
        lost = await until(found.hub, CLUSTERS, "dfw", "", lambda one: len(taints(one)) == 2)
        found.ways["dfw"].cut = False
        back = await until_ready(found, "True", within=90)

        assert ("cluster.karmada.io/not-ready", "NoSchedule") in taints(lost)
        assert taints(back) == [("maintenance", "NoSchedule")]


async def test_a_member_that_is_not_ready_gets_nothing_new() -> None:
    async with propagated() as found:
        found.ways["dfw"].cut = True
        await until_ready(found, "False", within=90)
        await found.hub.create(WDS, deployment("late", NS, "DFW"), NS)

        await until(
            found.hub,
            BINDINGS,
            "late-workloaddeployment",
            NS,
            lambda one: condition(one, "Scheduled") == NO_FIT,
        )


async def test_a_ready_cluster_that_leaves_has_its_objects_removed() -> None:
    async with propagated() as found:
        await found.hub.delete(CLUSTERS, "dfw")

        await until_gone(found.cells["dfw"], WDS, NAME, NS)
        await until_gone(found.hub, CLUSTERS, "dfw")


async def test_a_cluster_leaves_only_when_no_binding_targets_it() -> None:
    async with world() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_namespace(found.hub, NS)
        await create_policy(found.hub, NS, "DFW")
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        controllers = propagation_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        async with running(found.env, controllers):
            await bound(found, "dfw")
        controllers = propagation_controllers(found.hub_fleet(), found.member_fleet(), found.env)
        unscheduled = [one for one in controllers if one.name != "propagation-binding"]
        async with running(found.env, unscheduled):
            await found.hub.delete(CLUSTERS, "dfw")
            await until_gone(found.hub, NAMESPACES, "karmada-es-dfw")
            await settle()
            assert await exists(found.hub, CLUSTERS, "dfw")
            await change(found, BINDINGS, BINDING, spec={"clusters": []})

            await until_gone(found.hub, CLUSTERS, "dfw")


# 1.8 The smallest faithful subset


async def test_the_hub_is_an_api_with_locking_generations_selectors_and_watches() -> None:
    async with world() as found:
        hub = found.hub
        await create_namespace(hub, NS)
        made = await hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        status = {"status": {"replicas": 1, "currentReplicas": 0, "desiredReplicas": 0}}
        reported = await hub.patch(WDS, NAME, merge(status), NS, subresource="status")
        spec = merge({"spec": {"scaleSettings": {"minReplicas": 4}}})
        changed = await hub.patch(WDS, NAME, spec, NS)
        async with hub.watch(WDS, NS, resource_version=made.metadata.resource_version) as events:
            seen = [(await anext(events)) for _ in range(2)]
        twin = await found.cells["dfw"].create(NAMESPACES, build(NAMESPACES, NS), dry_run=False)

        assert reported.metadata.generation == made.metadata.generation
        assert changed.metadata.generation == made.metadata.generation + 1
        assert [event.type for event in seen] == [EventType.MODIFIED, EventType.MODIFIED]
        assert twin.metadata.uid != (await hub.get(NAMESPACES, NS)).metadata.uid
        for selected, count in ((f"{CITY}=DFW", 1), (f"{CITY}=LHR", 0)):
            assert len((await hub.list(WDS, NS, label_selector=selected)).items) == count
        for name, count in ((NAME, 1), ("other", 0)):
            found_by_name = await hub.list(WDS, NS, field_selector=f"metadata.name={name}")
            assert len(found_by_name.items) == count
        stale = {"metadata": {"resourceVersion": made.metadata.resource_version, "labels": {}}}
        with pytest.raises(errors.Conflict):
            await hub.patch(WDS, NAME, merge({**stale, "spec": {"cityCode": "LHR"}}), NS)


async def test_the_hub_collects_what_an_owner_leaves_behind_and_waits_for_finalizers() -> None:
    async with world() as found:
        await create_namespace(found.hub, NS)
        owner = await found.hub.create(WDS, deployment("owner", NS, "DFW"), NS)
        owned = deployment("owned", NS, "DFW")
        owned["metadata"]["finalizers"] = ["example.com/hold"]
        owned["metadata"]["ownerReferences"] = [
            {
                "apiVersion": WDS.api_version,
                "kind": WDS.kind,
                "name": "owner",
                "uid": owner.metadata.uid,
            }
        ]
        await found.hub.create(WDS, owned, NS)
        await found.hub.delete(WDS, "owner", NS)
        await until(found.hub, WDS, "owned", NS, lambda one: one.metadata.deleting)
        await found.hub.patch(WDS, "owned", merge({"metadata": {"finalizers": []}}), NS)

        await until_gone(found.hub, WDS, "owned", NS)


async def test_the_hub_serves_karmadas_kinds_and_ours() -> None:
    async with world() as found:
        for resource in (
            *HUB_KINDS,
            karmada.INTERPRETER_CUSTOMIZATIONS,
            compute.INSTANCES,
        ):
            await found.hub.list(resource)
