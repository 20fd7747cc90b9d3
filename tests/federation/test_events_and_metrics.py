"""Events and metrics, on the plane where users read them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.scheme import Resource
from datum_compute.assembly.local.platform import LocalPlatform
from datum_compute.assembly.local.state import DEFAULT_GRANT, LocalSettings
from datum_compute.client.protocol import Client, merge
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.expectations import eventually
from tests.support.controllers import cell_instances as cell_instance
from tests.support.controllers.planes import (
    CITY,
    NAMESPACE,
    controller_planes,
    deployment,
    given_namespace,
    report_serving,
    workload,
)
from tests.support.objects import until, until_gone, until_names

Event = tuple[str, str, int]
"""Type, reason and count."""


async def events_on(client: Client, kind: str, name: str) -> list[Event]:
    """What ``kubectl describe`` of this object would show."""
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    found = json.loads(await client.raw(f"/api/v1/events?fieldSelector={selector}"))["items"]
    return sorted((each["type"], each["reason"], each["count"]) for each in found)


@asynccontextmanager
async def platform() -> AsyncIterator[LocalPlatform]:
    settings = LocalSettings(cities=(CITY,))
    made = LocalPlatform(SimulatedEnvironment(), ":memory:", settings)
    async with made.run(admin_token="admin"):
        yield made


async def settled(client: Client, resource: Resource, name: str, ready: int) -> None:
    await until(
        client,
        resource,
        name,
        NAMESPACE,
        lambda obj: (
            values(obj.status).get("readyReplicas") == ready
            and values(obj.status).get("observedGeneration") == obj.metadata.generation
        ),
    )
    await asyncio.sleep(5)


async def test_a_successful_deployment_emits_a_few_events() -> None:
    async with platform() as running:
        project, cell = (
            running.client(plane, "local-admin") for plane in ("project/demo", "cell/dfw")
        )
        await project.create(compute.WORKLOADS, workload(CITY, replicas=2))
        await settled(project, compute.WORKLOADS, "web", 2)

        for client in (project, cell):
            for ordinal in range(2):
                reported = await events_on(client, "Instance", f"web-main-dfw-{ordinal}")
                assert reported == [("Normal", "Available", 1)]
            assert await events_on(client, "WorkloadDeployment", "web-main-dfw") == [
                ("Normal", "Scaled", 1),
                ("Normal", "StableInstanceFound", 1),
            ]
        assert await events_on(project, "Workload", "web") == [
            ("Normal", "AvailablePlacementFound", 1)
        ]


async def test_a_bad_image_is_a_warning_on_both_planes_once() -> None:
    async with platform() as running:
        project, cell = (
            running.client(plane, "local-admin") for plane in ("project/demo", "cell/dfw")
        )
        bad = workload(CITY)
        template = bad["spec"]["template"]
        template["metadata"] = {
            "annotations": {"simulated.compute.datumapis.com/fail": "ImageUnavailable"}
        }
        await project.create(compute.WORKLOADS, bad)

        async def reported() -> str:
            found = await events_on(project, "Instance", "web-main-dfw-0")
            return "" if found == [("Warning", "ImageUnavailable", 1)] else str(found)

        await eventually("the project hears of the image", reported)
        await asyncio.sleep(600)
        for client in (project, cell):
            found = await events_on(client, "Instance", "web-main-dfw-0")
            assert found == [("Warning", "ImageUnavailable", 1)]


async def test_a_failure_and_a_recovery_emit_one_event_each_on_every_kind() -> None:
    crash = "simulated.compute.datumapis.com/crash-after-seconds"
    body = workload(CITY)
    body["spec"]["template"]["metadata"] = {"annotations": {crash: "60"}}
    async with platform() as running:
        project = running.client("project/demo", "local-admin")
        await project.create(compute.WORKLOADS, body)
        await settled(project, compute.WORKLOADS, "web", 1)
        await asyncio.sleep(600)
        cured = {"spec": {"template": {"metadata": {"annotations": {crash: None}}}}}
        await project.patch(compute.WORKLOADS, "web", merge(cured), NAMESPACE)
        await settled(project, compute.WORKLOADS, "web", 1)
        await asyncio.sleep(600)

        up, down = ("Normal", "Available", 1), ("Warning", "InstanceCrashing", 1)
        assert await events_on(project, "Instance", "web-main-dfw-0") == [up, up, down]
        assert await events_on(project, "WorkloadDeployment", "web-main-dfw") == [
            ("Normal", "Scaled", 1),
            ("Normal", "StableInstanceFound", 2),
            ("Warning", "InstanceCrashing", 1),
        ]
        assert await events_on(project, "Workload", "web") == [
            ("Normal", "AvailablePlacementFound", 2),
            ("Warning", "NoAvailablePlacements", 1),
        ]


async def test_a_roll_emits_events_for_the_instances_it_replaces() -> None:
    async with platform() as running:
        project, cell = (
            running.client(plane, "local-admin") for plane in ("project/demo", "cell/dfw")
        )
        await project.create(compute.WORKLOADS, workload(CITY, replicas=2))
        await settled(project, compute.WORKLOADS, "web", 2)
        again = {"annotations": {compute.ANNOTATION_RESTARTED_AT: "2026-01-01T01:00:00Z"}}
        change = {"spec": {"template": {"metadata": again}}}
        await project.patch(compute.WORKLOADS, "web", merge(change), NAMESPACE)
        await settled(project, compute.WORKLOADS, "web", 2)

        reported = await events_on(cell, "WorkloadDeployment", "web-main-dfw")
        assert reported.count(("Normal", "Recreated", 1)) == 2
        found = await events_on(cell, "Instance", "web-main-dfw-0")
        assert found == [("Normal", "Available", 1)] * 2 + [("Normal", "Terminating", 1)]


async def test_denied_quota_emits_one_event() -> None:
    settings = LocalSettings(cities=(CITY,), grant={**DEFAULT_GRANT, "instances": 1})
    made = LocalPlatform(SimulatedEnvironment(), ":memory:", settings)
    async with made.run(admin_token="admin"):
        project = made.client("project/demo", "local-admin")
        await project.create(compute.WORKLOADS, workload(CITY, replicas=2))
        await asyncio.sleep(900)

        reported = await events_on(project, "Instance", "web-main-dfw-1")

    assert reported == [("Warning", "QuotaExceeded", 1)]


async def test_a_missing_network_emits_an_event_on_the_workload() -> None:
    async with platform() as running:
        project = running.client("project/demo", "local-admin")
        body = workload(CITY)
        interfaces: list[dict[str, Any]] = [{"network": {"name": "nowhere"}}]
        body["spec"]["template"]["spec"]["networkInterfaces"] = interfaces
        await project.create(compute.WORKLOADS, body)
        await asyncio.sleep(30)

        assert await events_on(project, "Workload", "web") == [("Warning", "NetworkNotFound", 1)]


async def test_actions_on_instances_are_counted_by_kind() -> None:
    registry = MetricsRegistry()
    async with controller_planes() as there:
        cell = there.cell_fleet()
        controllers = (
            workload_deployment_controller(cell, there.env, networking=False, metrics=registry),
            instance_controller(
                cell, there.env, hub=None, projects=None, cluster_name="dfw", metrics=registry
            ),
        )
        async with there.running(*controllers):
            await given_namespace(there.cell, there.hub_namespace)
            body = deployment()
            await there.cell.create(compute.WORKLOAD_DEPLOYMENTS, body, there.hub_namespace)
            await until_names(there.cell, compute.INSTANCES, "web-main-dfw-0")
            await report_serving(there, "web-main-dfw-0")
            scale = {"spec": {"scaleSettings": {"minReplicas": 0}}}
            await there.cell.patch(
                compute.WORKLOAD_DEPLOYMENTS,
                "web-main-dfw",
                merge(scale),
                there.hub_namespace,
            )
            await until_gone(there.cell, compute.INSTANCES, "web-main-dfw-0", there.hub_namespace)

            actions = registry.counter("compute_instance_actions_total", "", "action")
            assert actions.value("create") == 1
            assert actions.value("drain") == 1
            assert actions.value("recreate") == 0
            enforced = registry.gauge("compute_quota_enforcement_enabled", "", combine=max)
            assert enforced.value() == 0


async def test_a_claim_without_a_bucket_emits_an_event_only_after_a_delay() -> None:
    async with controller_planes() as there:
        await cell_instance.create_prerequisites(there)
        async with there.running(cell_instance.controller(there)):
            made = await cell_instance.create(there)
            await asyncio.sleep(5)
            early = await events_on(there.cell, "Instance", made.name)
            await asyncio.sleep(600)

            assert early == []
            reported = await events_on(there.cell, "Instance", made.name)
            assert reported == [("Warning", "QuotaNoBudget", 1)]
