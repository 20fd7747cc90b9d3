"""Lesson 7: claims were created in the local cluster, where no quota service evaluates them.

So: a claim is in the plane of its project, and names its cell.
"""

from __future__ import annotations

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.fleets.static import StaticFleet
from tests.support.controllers.cell_instances import CLAIM, DEPLOYMENT, instance
from tests.support.controllers.planes import (
    NAMESPACE,
    controller_planes,
    deployment,
    given_namespace,
)
from tests.support.objects import until


async def test_lesson_07_each_project_gets_the_claims_of_its_own_instances() -> None:
    async with controller_planes() as w:
        await w.embedded.create_project("acme")
        acme = w.embedded.client("project/acme")
        projects = StaticFleet("projects", {"demo": w.project, "acme": acme}, w.env)
        controller = instance_controller(
            w.cell_fleet(), w.env, hub=w.hub_fleet(), projects=projects, cluster_name="dfw"
        )
        acme_uid = (await acme.get(core.NAMESPACES, NAMESPACE)).metadata.uid
        places = {
            "demo": (w.project, w.hub_namespace, "cluster-demo"),
            "acme": (acme, f"ns-{acme_uid}", "cluster-planet_acme"),
        }
        for _, namespace, cluster in places.values():
            await given_namespace(w.cell, namespace, cluster=cluster)
        async with w.running(controller):
            for _, namespace, _ in places.values():
                await w.cell.create(compute.INSTANCES, instance(), namespace)
            for project, (client, namespace, _) in places.items():
                claim = await until(
                    client, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE, lambda obj: True
                )
                assert claim.metadata.labels == {
                    compute.LABEL_SOURCE_CLUSTER: "dfw",
                    compute.LABEL_INSTANCE_NAMESPACE: namespace,
                }
                assert claim.view(quota.ResourceClaim).spec.resource_ref.name == project

        for client in (w.cell, w.hub):
            with pytest.raises(errors.NotServed):
                await client.list(quota.RESOURCE_CLAIMS)


async def test_a_namespace_that_lost_its_labels_is_named_by_those_of_its_deployments() -> None:
    async with controller_planes() as w:
        await w.cell.create(core.NAMESPACES, {"metadata": {"name": w.hub_namespace}})
        controller = instance_controller(
            w.cell_fleet(), w.env, hub=w.hub_fleet(), projects=w.projects(), cluster_name="dfw"
        )
        body = deployment(DEPLOYMENT)
        body["metadata"]["labels"] = {
            compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo",
            compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
        }
        await w.cell.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
        async with w.running(controller):
            await w.cell.create(compute.INSTANCES, instance(), w.hub_namespace)
            await until(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE, lambda obj: True)
