"""An Instance's copy on the hub, its owner in the project and the projector."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.projection import projector
from datum_compute.runtime.controller import Controller
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    condition_value,
    controller_planes,
    deployment,
    given_namespace,
    template,
)
from tests.support.objects import condition, until

NAME = "web-main-dfw-0"
DEPLOYMENT = "web-main-dfw"


def controller(w: ControllerPlanes) -> Controller:
    return projector(w.projects(), w.hub_fleet(), w.env)


def hub_instance(w: ControllerPlanes, *, uid: str = "cell-uid-1", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": NAME,
            "namespace": w.hub_namespace,
            "labels": {
                compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo",
                compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
                compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: DEPLOYMENT,
                compute.LABEL_WORKLOAD_DEPLOYMENT_UID: "uid-in-the-cell",
                compute.LABEL_INSTANCE_INDEX: "0",
                **labels,
            },
            "annotations": {compute.ANNOTATION_INSTANCE_UID: uid},
        },
        "spec": template()["spec"],
    }


async def given_hub_instance(w: ControllerPlanes, **more: str) -> Object:
    made = await w.hub.create(compute.INSTANCES, hub_instance(w, **more))
    await reported(w, "Ready", "False", "SchedulingGatesPresent")
    return made


async def reported(w: ControllerPlanes, type_: str, status: str, reason: str) -> None:
    body = {"status": {"conditions": [condition_value(type_, status, reason)]}}
    await w.hub.patch(compute.INSTANCES, NAME, merge(body), w.hub_namespace, subresource="status")


async def given_owner(w: ControllerPlanes) -> Object:
    notes = {compute.ANNOTATION_FEDERATION_NAMESPACE: w.hub_namespace}
    body = deployment(DEPLOYMENT, annotations=notes)
    return await w.project.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)


@asynccontextmanager
async def projected() -> AsyncIterator[ControllerPlanes]:
    """The projector at work, with an Instance on the hub that is shown in its project."""
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        async with w.running(controller(w)):
            await given_hub_instance(w)
            await projection(w)
            yield w


async def projection(w: ControllerPlanes) -> Object:
    return await until(
        w.project,
        compute.INSTANCES,
        NAME,
        NAMESPACE,
        lambda obj: condition(obj, "Ready") == ("False", "SchedulingGatesPresent"),
    )
