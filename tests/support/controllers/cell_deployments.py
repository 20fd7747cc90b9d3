"""A WorkloadDeployment in a cell, its controller and its Instances."""

from __future__ import annotations

from typing import Any

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client.protocol import Client, merge
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.runtime.controller import Controller
from tests.support.controllers.planes import (
    ControllerPlanes,
    counters,
    deployment,
    given_namespace,
    remove_finalizers,
    report_serving,
)
from tests.support.objects import until, until_names

DEPLOYMENTS = compute.WORKLOAD_DEPLOYMENTS
NAME = "web-main-dfw"
ZERO, ONE, TWO = (f"{NAME}-{ordinal}" for ordinal in range(3))


def controller(w: ControllerPlanes, *, with_networks: bool = False) -> Controller:
    return workload_deployment_controller(w.cell_fleet(), w.env, networking=with_networks)


def federated_controller(w: ControllerPlanes, project: Client) -> Controller:
    """A controller that needs the project's claims for a roll."""
    return workload_deployment_controller(
        w.cell_fleet(),
        w.env,
        networking=False,
        hub=w.hub_fleet(),
        projects=w.projects(project),
        cluster_name="dfw",
    )


async def given(w: ControllerPlanes, replicas: int, *, managed: bool = True, **more: Any) -> Object:
    """``managed`` as Karmada marks what it applies."""
    await given_namespace(w.cell, w.hub_namespace)
    body = deployment(NAME, replicas=replicas, **more)
    if managed:
        body["metadata"].setdefault("labels", {})[karmada.LABEL_MANAGED] = "true"
    return await w.cell.create(DEPLOYMENTS, body, w.hub_namespace)


async def change(w: ControllerPlanes, **spec: Any) -> None:
    await w.cell.patch(DEPLOYMENTS, NAME, merge({"spec": spec}), w.hub_namespace)


async def all_run(w: ControllerPlanes, *expected: str) -> None:
    """Instances appear one by one, each after its predecessor serves."""
    for count in range(1, len(expected) + 1):
        await until_names(w.cell, compute.INSTANCES, *expected[:count])
        await report_serving(w, expected[count - 1])


async def status(w: ControllerPlanes, expected: tuple[int, int, int, int]) -> Object:
    return await until(
        w.cell, DEPLOYMENTS, NAME, w.hub_namespace, lambda obj: counters(obj) == expected
    )


async def deleting(w: ControllerPlanes, name: str) -> Object:
    return await until(
        w.cell, compute.INSTANCES, name, w.hub_namespace, lambda obj: obj.metadata.deleting
    )


async def replaced(w: ControllerPlanes, name: str, predecessor: Object) -> None:
    """The provider stops the old Instance; its replacement is created and becomes ready."""
    await remove_finalizers(w.cell, compute.INSTANCES, name, w.hub_namespace)
    await until(
        w.cell,
        compute.INSTANCES,
        name,
        w.hub_namespace,
        lambda obj: obj.metadata.uid != predecessor.metadata.uid,
    )
    await report_serving(w, name)


async def given_location(w: ControllerPlanes) -> None:
    spec = {"topology": {networking.TOPOLOGY_CITY_CODE: "DFW"}}
    await w.cell.create(networking.LOCATIONS, {"metadata": {"name": "dfw"}, "spec": spec})


async def scale(w: ControllerPlanes, replicas: int) -> None:
    await change(w, scaleSettings={"minReplicas": replicas})
