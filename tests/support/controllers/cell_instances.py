"""An Instance of a cell, for tests that act as quota and as the provider."""

from __future__ import annotations

from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client.protocol import Client, merge
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.fleet import Fleet
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    deployment,
    given_namespace,
    set_condition,
    template,
)
from tests.support.objects import condition, find, until, until_gone

NAME = "web-main-dfw-0"
CLAIM = f"instance-{NAME}"
DEPLOYMENT = "web-main-dfw"
PROVIDER = "test.compute.datumapis.com/finalizer"


def controller(
    w: ControllerPlanes, *, project: Client | None = None, hub: Client | None = None, **more: Any
) -> Controller:
    return instance_controller(
        w.cell_fleet(),
        w.env,
        hub=w.hub_fleet(hub),
        projects=w.projects(project),
        cluster_name="dfw",
        **more,
    )


def without_quota(w: ControllerPlanes, hub: Fleet | None = None) -> Controller:
    return instance_controller(w.cell_fleet(), w.env, hub=hub, projects=None, cluster_name="dfw")


async def create_prerequisites(w: ControllerPlanes, *, replicas: int = 1) -> None:
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


async def create(w: ControllerPlanes, **more: Any) -> Object:
    return await w.cell.create(compute.INSTANCES, instance(**more), w.hub_namespace)


async def claim_of(w: ControllerPlanes, name: str = CLAIM) -> Object:
    return await until(w.project, quota.RESOURCE_CLAIMS, name, NAMESPACE, lambda obj: True)


async def answer_claim(
    w: ControllerPlanes, status: str = "True", reason: str = "QuotaAvailable"
) -> Object:
    claim = await claim_of(w)
    return await set_condition(
        w, w.project, quota.RESOURCE_CLAIMS, claim, "Granted", status, reason
    )


async def until_instance_shows(
    w: ControllerPlanes, *expected: tuple[str, str, str], within: float = 60.0, gates: str = ""
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


async def until_hub_copy_shows(w: ControllerPlanes, *expected: tuple[str, str, str]) -> Object:
    return await until(
        w.hub,
        compute.INSTANCES,
        NAME,
        w.hub_namespace,
        lambda obj: all(condition(obj, type_) == (s, r) for type_, s, r in expected),
    )


async def set_provider_condition(w: ControllerPlanes, type_: str, status: str, reason: str) -> None:
    found = await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)
    await set_condition(w, w.cell, compute.INSTANCES, found, type_, status, reason)


GRANTED = ("QuotaGranted", "True", "QuotaAvailable")


async def given_bucket(w: ControllerPlanes, name: str, available: int) -> Object:
    body = {
        "metadata": {"name": f"bucket-{name}"},
        "spec": {
            "consumerRef": {"kind": "Project", "name": "demo"},
            "resourceType": f"compute.datumapis.com/{name}",
        },
    }
    bucket = await w.project.create(quota.ALLOWANCE_BUCKETS, body, quota.NAMESPACE_MILO_SYSTEM)
    await set_available(w, bucket, available)
    return bucket


async def set_available(w: ControllerPlanes, bucket: Object, available: int) -> None:
    body = {"status": {"limit": available, "available": available}}
    await w.project.patch(
        quota.ALLOWANCE_BUCKETS, bucket.name, merge(body), bucket.namespace, subresource="status"
    )


async def scale(w: ControllerPlanes, replicas: int) -> None:
    body = {"spec": {"scaleSettings": {"minReplicas": replicas}}}
    await w.cell.patch(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, merge(body), w.hub_namespace)


async def left_behind(w: ControllerPlanes) -> list[str]:
    """What is left of the Instance outside the cell, by the finalizer for it."""
    copy = await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
    claim = await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
    found = {compute.FINALIZER_INSTANCE: copy, compute.FINALIZER_QUOTA_CLAIM: claim}
    return [name for name, obj in found.items() if obj is not None]


async def until_nothing_left(w: ControllerPlanes) -> None:
    await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
    await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def finalizers(w: ControllerPlanes) -> list[str]:
    found = await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)
    return list(found.metadata.finalizers)


async def granted(w: ControllerPlanes) -> None:
    """An Instance that has its copy and its claim, and that is not wanted any more."""
    await create(w)
    await answer_claim(w)
    await until_hub_copy_shows(w, ("QuotaGranted", "True", "QuotaAvailable"))
    await scale(w, 0)
