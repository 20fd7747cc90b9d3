"""A deployment on its way to the hub, and what Karmada makes of it, played by hand: its bindings,
Works, Clusters.
"""

from __future__ import annotations

from datum_compute.api import core, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, owner_reference
from tests.support.controllers.planes import NAMESPACE, ControllerPlanes, deployment, set_condition
from tests.support.objects import condition, find, until

DEPLOYMENTS = compute.WORKLOAD_DEPLOYMENTS
NAME = "web-main-dfw"
BINDING = "web-main-dfw-workloaddeployment"


async def given_deployment(w: ControllerPlanes, name: str = NAME, *, replicas: int = 1) -> Object:
    return await w.project.create(DEPLOYMENTS, deployment(name, replicas=replicas), NAMESPACE)


async def on_hub(w: ControllerPlanes, name: str = NAME) -> Object:
    return await until(w.hub, DEPLOYMENTS, name, w.hub_namespace, lambda obj: True)


async def given_cell(w: ControllerPlanes, *, ready: str = "True") -> Object:
    body = {
        "metadata": {"name": "dfw", "labels": {compute.LABEL_TOPOLOGY_CITY_CODE: "DFW"}},
        "spec": {"syncMode": "Push"},
    }
    cell = await find(w.hub, karmada.CLUSTERS, "dfw", "")
    cell = cell or await w.hub.create(karmada.CLUSTERS, body)
    return await set_condition(w, w.hub, karmada.CLUSTERS, cell, "Ready", ready)


async def given_binding(w: ControllerPlanes, *cells: str) -> Object:
    hub_deployment = await on_hub(w)
    body = {
        "metadata": {
            "name": BINDING,
            "finalizers": [karmada.FINALIZER_BINDING],
            "ownerReferences": [owner_reference(hub_deployment, controller=True)],
        },
        "spec": {
            "resource": {
                "apiVersion": DEPLOYMENTS.api_version,
                "kind": DEPLOYMENTS.kind,
                "namespace": w.hub_namespace,
                "name": hub_deployment.name,
            },
            "clusters": [{"name": cell} for cell in cells],
        },
    }
    return await w.hub.create(karmada.RESOURCE_BINDINGS, body, w.hub_namespace)


async def given_work(w: ControllerPlanes) -> None:
    namespace = karmada.execution_namespace("dfw")
    await w.hub.create(core.NAMESPACES, {"metadata": {"name": namespace}})
    notes = {
        karmada.ANNOTATION_BINDING_NAMESPACE: w.hub_namespace,
        karmada.ANNOTATION_BINDING_NAME: BINDING,
    }
    body = {"metadata": {"name": f"{NAME}-abc", "annotations": notes}, "spec": {"workload": {}}}
    await w.hub.create(karmada.WORKS, body, namespace)


async def shown(w: ControllerPlanes, *expected: tuple[str, str, str]) -> Object:
    """The project's deployment once it shows these conditions."""
    return await until(
        w.project,
        DEPLOYMENTS,
        NAME,
        NAMESPACE,
        lambda obj: all(condition(obj, type_) == (s, r) for type_, s, r in expected),
    )
