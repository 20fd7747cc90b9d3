"""A workload that is stopped runs nothing, loses nothing, and comes back in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.services import v1alpha1 as services
from datum_compute.client.protocol import Client, merge
from datum_compute.testing.expectations import eventually
from tests.support.federation.crash_scenarios import change, create
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.simulation.random_operations import DesiredWorkload

DAY = 24 * 3600.0
WEB = DesiredWorkload("web", "acme/web:1", 3, ("DFW",))
DFW, LHR = "web-default-dfw", "web-default-lhr"


async def mark(client: Client, kind: Any, name: str, value: str | None) -> None:
    body = merge({"metadata": {"annotations": {compute.ANNOTATION_SUSPENDED: value}}})
    await client.patch(kind, name, body, NAMESPACE)


async def stop(on: Stage, value: str | None = "true") -> None:
    await mark(on.project, compute.WORKLOADS, "web", value)


async def start(on: Stage) -> None:
    await stop(on, None)


async def deployment(on: Stage, name: str = DFW) -> compute.WorkloadDeployment:
    found = await on.project.list(
        compute.WORKLOAD_DEPLOYMENTS, NAMESPACE, field_selector=f"metadata.name={name}"
    )
    views = [each.view(compute.WorkloadDeployment) for each in found.items]
    return views[0] if views else compute.WorkloadDeployment()


async def instances(on: Stage, city: str = "DFW") -> list[compute.Instance]:
    found = await on.cell(city).list(compute.INSTANCES, on.hub_namespace)
    return [each.view(compute.Instance) for each in found.items]


async def claims(on: Stage) -> set[tuple[str, str]]:
    found = await on.project.list(quota.RESOURCE_CLAIMS, NAMESPACE)
    return {(each.name, each.metadata.uid) for each in found.items}


async def stopped(on: Stage, name: str = DFW) -> None:
    async def missing() -> str:
        status = (await deployment(on, name)).status
        return "" if status.suspended else f"{name} is {status}"

    await eventually("stopped", missing)


async def serving(on: Stage, count: int = 3, name: str = DFW) -> None:
    async def missing() -> str:
        status = (await deployment(on, name)).status
        done = status.ready_replicas == status.updated_replicas == status.replicas == count
        return "" if done and not status.suspended else f"{name} is {status}"

    await eventually("serving", missing)


def stated(found: compute.Instance | compute.WorkloadDeployment, kind: str) -> tuple[str, str]:
    condition = conditions.find(found.status.conditions, kind)
    return (condition.status, condition.reason) if condition else ("", "")


@pytest.mark.parametrize("seconds", [3600.0, pytest.param(DAY, marks=pytest.mark.long)])
async def test_a_stopped_workload_keeps_its_claims_and_writes_nothing(seconds: float) -> None:
    async with stage(grant={"instances": 3}) as on:
        await create(on, WEB)
        await serving(on)
        held = await claims(on)
        addresses = [each.status.network_interfaces for each in await instances(on)]

        await stop(on)
        await stopped(on)
        await create(on, DesiredWorkload("other", "acme/web:1", 1, ("DFW",)))
        assert await on.written_in(seconds) == []

        assert held <= await claims(on)
        found = await instances(on)
        own = [each for each in found if each.metadata.name.startswith(DFW)]
        assert [each.status.network_interfaces for each in own] == addresses
        assert {stated(each, "Available") for each in own} == {("False", "Suspended")}
        assert {stated(each, "Ready") for each in own} == {("False", "Suspended")}
        assert all(each.status.suspended for each in own)
        assert stated(await deployment(on), "Available") == ("False", "Suspended")

        await start(on)
        await serving(on)
        assert held <= await claims(on)
        again = [each for each in await instances(on) if each.metadata.name.startswith(DFW)]
        assert [each.metadata.uid for each in again] == [each.metadata.uid for each in own]
        assert [each.status.network_interfaces for each in again] == addresses


async def test_a_started_workload_comes_back_one_by_one_from_the_lowest_ordinal() -> None:
    desired = DesiredWorkload("web", "acme/web:1", 3, ("DFW",), start_seconds="10")
    async with stage() as on:
        await create(on, desired)
        await serving(on)
        await stop(on)
        await stopped(on)
        await start(on)

        seen: list[tuple[bool, ...]] = []
        for _ in range(400):
            ready = tuple(each.ready for each in await instances(on))
            seen += [ready] if not seen or seen[-1] != ready else []
            await asyncio.sleep(0.1)
        no, yes = False, True
        assert seen == [(no, no, no), (yes, no, no), (yes, yes, no), (yes, yes, yes)]


@pytest.mark.parametrize("value", ["true", "workload", "whatever"])
async def test_an_annotation_on_a_deployment_alone_stops_it_too(value: str) -> None:
    """As upstream does it; a value of the Workload controller's own is removed."""
    async with stage() as on:
        await create(on, DesiredWorkload("web", "acme/web:1", 2, ("DFW", "LHR")))
        await serving(on, 2)
        await serving(on, 2, LHR)
        await mark(on.project, compute.WORKLOAD_DEPLOYMENTS, DFW, value)
        if value == "workload":
            await asyncio.sleep(30)
            await serving(on, 2)
            return
        await stopped(on)
        await serving(on, 2, LHR)

        await stop(on)
        await stopped(on, LHR)
        await start(on)
        await serving(on, 2, LHR)
        await stopped(on)
        await mark(on.project, compute.WORKLOAD_DEPLOYMENTS, DFW, None)
        await serving(on, 2)


async def test_changes_of_a_stopped_workload_take_effect_when_it_starts() -> None:
    async with stage() as on:
        await create(on, WEB)
        await serving(on)
        await stop(on)
        await stopped(on)
        before = {each.metadata.uid for each in await instances(on)}
        await change(on, DesiredWorkload("web", "acme/web:2", 2, ("DFW", "LHR")))
        await stopped(on, LHR)
        await asyncio.sleep(600)

        assert {each.metadata.uid for each in await instances(on)} == before
        assert await instances(on, "LHR") == []
        await start(on)
        await serving(on, 2)
        await serving(on, 2, LHR)
        images = {
            each.spec.runtime.sandbox.containers[0].image
            for each in await instances(on)
            if each.spec.runtime.sandbox
        }
        assert images == {"acme/web:2"}


async def test_a_stopped_workload_can_be_deleted() -> None:
    async with stage() as on:
        await create(on, WEB)
        await serving(on)
        await stop(on)
        await stopped(on)
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)

        async def missing() -> str:
            left = await on.project.list(compute.WORKLOADS, NAMESPACE)
            return f"{len(left.items)} left" if left.items else ""

        await eventually("deleted", missing)
        assert await claims(on) == set()


async def test_a_workload_stopped_before_it_runs_starts_nothing() -> None:
    async with stage() as on:
        body = WEB.to_create()
        body["metadata"]["annotations"] = {compute.ANNOTATION_SUSPENDED: "true"}
        await on.project.create(compute.WORKLOADS, body, NAMESPACE)
        await stopped(on)
        assert await instances(on) == []
        await start(on)
        await serving(on)


async def test_a_failing_workload_is_stopped_not_failed() -> None:
    async with stage() as on:
        failing = DesiredWorkload("web", "acme/web:1", 2, ("DFW",), fail="ImageUnavailable")
        await create(on, failing)
        await asyncio.sleep(30)
        await stop(on)
        await stopped(on)
        found = await deployment(on)
        assert stated(found, "Available") == ("False", "Suspended")
        assert stated(found, "ReplicasReady") == ("False", "Suspended")
        workload = await on.project.get(compute.WORKLOADS, "web", NAMESPACE)
        available = conditions.find(workload.view(compute.Workload).status.conditions, "Available")
        assert available is not None
        assert available.reason == "Suspended"


async def test_a_suspended_project_is_stopped_until_it_is_active_again() -> None:
    async def suspend(on: Stage, status: str) -> None:
        reason = "ProjectSuspended" if status == "True" else "ProjectActive"
        found = await on.project.get(services.SERVICE_ENTITLEMENTS, services.ENTITLEMENT_COMPUTE)
        current = conditions.with_condition(
            found.view(services.ServiceEntitlement).status.conditions,
            services.CONDITION_SUSPENDED,
            status,
            reason,
            "",
            now=on.env.now(),
        )
        body = merge({"status": {"conditions": conditions.to_wire(current)}})
        await on.project.patch(
            services.SERVICE_ENTITLEMENTS, found.name, body, subresource="status"
        )

    async with stage() as on:
        await create(on, DesiredWorkload("web", "acme/web:1", 1, ("DFW", "LHR")))
        await serving(on, 1)
        await mark(on.project, compute.WORKLOAD_DEPLOYMENTS, LHR, "true")
        await stopped(on, LHR)
        await suspend(on, "True")
        await stopped(on)
        assert stated(await deployment(on), "Available") == ("False", "ProjectSuspended")
        await stop(on)
        await suspend(on, "False")
        await asyncio.sleep(10)
        await stopped(on)
        assert stated(await deployment(on), "Available") == ("False", "Suspended")
        await start(on)
        await serving(on, 1)
        await stopped(on, LHR)


async def test_a_cell_that_is_away_stops_when_it_is_back() -> None:
    async with stage() as on:
        await create(on, WEB)
        await serving(on)
        on.platform.partitions.disconnect("dfw")
        await stop(on)
        await asyncio.sleep(300)
        assert all(each.ready for each in await instances(on))
        on.platform.partitions.connect("dfw")
        await stopped(on)


async def test_marks_and_reports_that_another_writer_removes_are_put_back() -> None:
    async with stage() as on:
        await create(on, WEB)
        await serving(on)
        await stop(on)
        await stopped(on)
        name = f"{DFW}-0"
        places = [
            (on.project, compute.WORKLOAD_DEPLOYMENTS, DFW, NAMESPACE),
            (on.hub, compute.WORKLOAD_DEPLOYMENTS, DFW, on.hub_namespace),
            (on.cell(), compute.WORKLOAD_DEPLOYMENTS, DFW, on.hub_namespace),
            (on.cell(), compute.INSTANCES, name, on.hub_namespace),
        ]
        unmarked = merge({"metadata": {"annotations": {compute.ANNOTATION_SUSPENDED: None}}})
        for client, kind, named, namespace in places:
            if (client, kind) == (places[2][0], compute.WORKLOAD_DEPLOYMENTS):
                continue  # Karmada puts back an annotation only with the next change on the hub
            await client.patch(kind, named, unmarked, namespace)
            await asyncio.sleep(15)
        unreported = merge({"status": {"suspended": None}})
        for client, kind, named, namespace in places:
            await client.patch(kind, named, unreported, namespace, subresource="status")
            await asyncio.sleep(15)

        for client, kind, named, namespace in places:
            found = await client.get(kind, named, namespace)
            assert found.metadata.annotations.get(compute.ANNOTATION_SUSPENDED), named
            assert b'"suspended":true' in bytes(found.status).replace(b" ", b""), named
        await stopped(on)


async def test_a_template_cannot_stop_its_own_instances() -> None:
    async with stage() as on:
        body = WEB.to_create()
        notes = {compute.ANNOTATION_SUSPENDED: "true"}
        body["spec"]["template"]["metadata"] = {"annotations": notes}
        await on.project.create(compute.WORKLOADS, body, NAMESPACE)
        await serving(on)


async def test_a_workload_whose_network_is_gone_is_stopped_too() -> None:
    async with stage() as on:
        await create(on, WEB)
        await serving(on)
        await on.project.delete(networking.NETWORKS, "default", NAMESPACE)
        await asyncio.sleep(10)
        await stop(on)
        await stopped(on)
