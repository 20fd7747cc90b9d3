"""What one Workload costs does not depend on how many others its namespace holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.workload import workload_controller
from datum_compute.testing import loop
from tests.support.controllers.planes import (
    NAMESPACE,
    controller_planes,
    deployment,
    given_project,
    settle,
    workload,
)

FEW, MANY = 5, 200


class CallCounter:
    """Calls of Python functions: a measure of work that no other process disturbs."""

    calls = 0

    def count(self, frame: FrameType, event: str, argument: Any) -> None:
        self.calls += event == "call"

    @contextmanager
    def counting(self) -> Iterator[None]:
        sys.setprofile(self.count)
        try:
            yield
        finally:
            sys.setprofile(None)


async def calls_of_one_change(neighbours: int) -> int:
    """The calls until one Workload has another size, beside deployments of others."""
    counter = CallCounter()
    async with controller_planes() as w:
        await given_project(w, "DFW")
        for number in range(neighbours):
            body = deployment(name=f"other-{number}-main-dfw")
            await w.project.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)
        async with w.running(workload_controller(w.projects(), w.env)):
            await w.project.create(compute.WORKLOADS, workload("DFW"))
            await settle()
            with counter.counting():
                size = {"name": "main", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 7}}
                change = merge({"spec": {"placements": [size]}})
                await w.project.patch(compute.WORKLOADS, "web", change, NAMESPACE)
                await settle()
        found = await w.project.get(compute.WORKLOAD_DEPLOYMENTS, "web-main-dfw", NAMESPACE)
        assert found.view(compute.WorkloadDeployment).spec.scale_settings.min_replicas == 7
    return counter.calls


def test_a_change_of_one_workload_costs_the_same_among_few_and_many_others() -> None:
    few = loop.run(calls_of_one_change(FEW))
    many = loop.run(calls_of_one_change(MANY))

    assert many < 1.1 * few, f"{few} calls among {FEW} deployments, {many} among {MANY}"
