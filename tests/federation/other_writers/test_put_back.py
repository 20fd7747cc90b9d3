"""What another writer changes of what our controllers own is put back within seconds."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import merge
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.simulation.commit_checker import NoRules
from tests.support.simulation.platform import apply
from tests.support.simulation.random_operations import DesiredWorkload
from tests.support.simulation.settled import unsettled

WEB = {"web": DesiredWorkload("web", "acme/web:1", 1, ("DFW",))}
WITHIN_SECONDS = 15.0

NO_STATUS = {"status": None}
NO_OWNER = {"metadata": {"ownerReferences": None}}
NO_CELL = {"metadata": {"labels": {compute.LABEL_SOURCE_CLUSTER: None}}}
OTHER_IMAGE = {"spec": {"runtime": {"sandbox": {"containers": [{"name": "app", "image": "x:9"}]}}}}


class Change(NamedTuple):
    plane: str
    resource: Resource
    name: str
    body: dict[str, Any]
    subresource: str = ""


CHANGES = (
    Change("project/demo", compute.WORKLOADS, "web", NO_STATUS, "status"),
    Change("project/demo", compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", NO_STATUS, "status"),
    Change("project/demo", compute.INSTANCES, "web-default-dfw-0", NO_STATUS, "status"),
    Change("project/demo", compute.INSTANCES, "web-default-dfw-0", NO_OWNER),
    Change("hub", compute.INSTANCES, "web-default-dfw-0", NO_STATUS, "status"),
    Change("hub", compute.INSTANCES, "web-default-dfw-0", NO_OWNER),
    Change("hub", compute.INSTANCES, "web-default-dfw-0", NO_CELL),
    Change("cell/dfw", compute.WORKLOAD_DEPLOYMENTS, "web-default-dfw", NO_STATUS, "status"),
    Change("cell/dfw", compute.INSTANCES, "web-default-dfw-0", NO_OWNER),
    Change("cell/dfw", compute.INSTANCES, "web-default-dfw-0", OTHER_IMAGE),
)


async def _missing(on: Stage, change: Change, namespace: str) -> str:
    found = await on.client(change.plane).get(change.resource, change.name, namespace)
    if change.body is NO_CELL and compute.LABEL_SOURCE_CLUSTER not in found.metadata.labels:
        return "the copy does not name its cell"
    return await unsettled(on, WEB)


@pytest.mark.parametrize("plane", ["project/demo", "hub", "cell/dfw"])
async def test_a_status_owner_label_or_spec_changed_by_another_writer_is_put_back(
    plane: str,
) -> None:
    async with stage(cities=("DFW",), commit_checker=NoRules()) as on:
        await apply(on, WEB["web"].to_create())
        await eventually("deployed", lambda: unsettled(on, WEB))
        for change in (each for each in CHANGES if each.plane == plane):
            namespace = NAMESPACE if plane == "project/demo" else on.hub_namespace
            await on.client(plane).patch(
                change.resource,
                change.name,
                merge(change.body),
                namespace,
                subresource=change.subresource,
            )
            missing = partial(_missing, on, change, namespace)
            await eventually(f"{change.resource} put back", missing, within=WITHIN_SECONDS)
