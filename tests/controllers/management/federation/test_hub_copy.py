"""The copy of a project's deployment on the hub."""

from __future__ import annotations

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.federation import federator
from datum_compute.runtime.writes.patch import values
from tests.support.controllers.federation import (
    DEPLOYMENTS,
    NAME,
    given_deployment,
    on_hub,
)
from tests.support.controllers.planes import NAMESPACE, controller_planes, settle
from tests.support.objects import find, until


async def test_a_deployment_gets_namespace_policy_and_copy_on_the_hub() -> None:
    async with controller_planes() as w:
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            made = await given_deployment(w, replicas=3)
            copy = await on_hub(w)

        namespace = await w.hub.get(core.NAMESPACES, w.hub_namespace)
        assert namespace.metadata.labels[compute.LABEL_UPSTREAM_CLUSTER_NAME] == "cluster-demo"
        assert namespace.metadata.labels[compute.LABEL_UPSTREAM_NAMESPACE] == NAMESPACE
        assert values(copy.spec) == values(made.spec)
        assert copy.metadata.labels == {
            compute.LABEL_TOPOLOGY_CITY_CODE: "DFW",
            compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo",
            compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
        }
        assert copy.metadata.annotations[compute.ANNOTATION_SOURCE_GENERATION] == "1"
        assert copy.metadata.owner_references == ()
        policy = await w.hub.get(karmada.PROPAGATION_POLICIES, "city-dfw", w.hub_namespace)
        spec = policy.view(karmada.PropagationPolicy).spec
        assert [each.kind for each in spec.resource_selectors] == ["WorkloadDeployment"]
        constraint = spec.placement.spread_constraints[0]
        assert (constraint.spread_by_field, constraint.min_groups, constraint.max_groups) == (
            "cluster",
            1,
            1,
        )
        # A cell's object that has lost Karmada's labels is taken back.
        assert spec.conflict_resolution == "Overwrite"


async def test_the_hub_location_is_recorded_before_anything_is_created() -> None:
    def crash() -> None:
        raise RuntimeError("the process ends here")

    async with controller_planes() as w:
        w.env.on_fault("federation.before-hub-write", crash)
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            found = await until(
                w.project, DEPLOYMENTS, NAME, NAMESPACE, lambda obj: obj.metadata.finalizers
            )
            await settle(5)

        assert found.metadata.finalizers == (compute.FINALIZER_FEDERATOR,)
        recorded = found.metadata.annotations[compute.ANNOTATION_FEDERATION_NAMESPACE]
        assert recorded == w.hub_namespace
        assert await find(w.hub, core.NAMESPACES, w.hub_namespace, "") is None


async def test_a_change_is_copied_with_its_generation_and_keeps_karmadas_labels() -> None:
    async with controller_planes() as w:
        async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
            await given_deployment(w)
            await on_hub(w)
            claim = {"metadata": {"labels": {karmada.LABEL_POLICY_ID: "id"}}}
            await w.hub.patch(DEPLOYMENTS, NAME, merge(claim), w.hub_namespace)
            body = {"spec": {"scaleSettings": {"minReplicas": 5}}}
            await w.project.patch(DEPLOYMENTS, NAME, merge(body), NAMESPACE)
            stamp = compute.ANNOTATION_SOURCE_GENERATION
            copy = await until(
                w.hub,
                DEPLOYMENTS,
                NAME,
                w.hub_namespace,
                lambda obj: obj.metadata.annotations[stamp] == "2",
            )

        assert copy.view(compute.WorkloadDeployment).spec.scale_settings.min_replicas == 5
        assert copy.metadata.labels[karmada.LABEL_POLICY_ID] == "id"


async def test_a_hub_copy_changed_by_hand_is_restored() -> None:
    async with controller_planes() as w, w.running(federator(w.projects(), w.hub_fleet(), w.env)):
        made = await given_deployment(w, replicas=2)
        await on_hub(w)
        body = {"spec": {"scaleSettings": {"minReplicas": 9}}}
        await w.hub.patch(DEPLOYMENTS, NAME, merge(body), w.hub_namespace)
        await until(
            w.hub,
            DEPLOYMENTS,
            NAME,
            w.hub_namespace,
            lambda obj: values(obj.spec) == values(made.spec),
        )
