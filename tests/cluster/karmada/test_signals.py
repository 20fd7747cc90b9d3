"""What operators see of the way through a real Karmada: metrics of our managers, and Events in
the project."""

from __future__ import annotations

import json

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.testing.expectations import eventually
from tests.support.cluster.karmada_stage import NAMESPACE, KarmadaStage
from tests.support.cluster.manifests import run_kubectl_on
from tests.support.federation.lifecycle import FIRST, Lifecycle
from tests.support.objects import until_gone

pytestmark = [pytest.mark.cluster, pytest.mark.karmada]

WITHIN = 120.0
HUB_WRITES = "compute_federation_hub_writes_total"
CITY = "topology.datum.net/city-code"
CONDITION = "datum_cloud_compute_workload_deployment_status_condition"


async def total(on: KarmadaStage, manager: str, family: str, *labels: str) -> float:
    """Of the series with these labels, over all replicas."""
    sum_ = 0.0
    for pod in on.managers[manager]:
        for series, value in (await pod.metrics()).items():
            name, _, rest = series.partition("{")
            if name == family and all(label in rest for label in labels):
                sum_ += value
    return sum_


def hub_writes(on: KarmadaStage, user: str) -> int:
    """Writes of a user to Instances and deployments of the hub, by the hub's audit log."""
    return sum(
        call.right.plane == "hub"
        and call.right.user == user
        and call.right.resource.partition("/")[0] in ("instances", "workloaddeployments")
        and call.right.verb in ("create", "patch", "delete")
        and call.code < 300
        for call in on.clusters.calls()
    )


async def events_of(on: KarmadaStage, name: str) -> set[tuple[str, str]]:
    """Type and reason of those on a deployment of the project."""
    selector = f"involvedObject.kind=WorkloadDeployment,involvedObject.name={name}"
    path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector={selector}"
    found = json.loads(await on.project.raw(path))["items"]
    return {(each["type"], each["reason"]) for each in found}


async def test_writes_to_the_hub_and_lags_are_counted(on: KarmadaStage) -> None:
    users = {name: f"compute-cell-{name}" for name in ("dfw", "lhr")}
    users |= {"management": "compute-management"}
    counted = {name: await total(on, name, HUB_WRITES) for name in users}
    audited = {name: hub_writes(on, user) for name, user in users.items()}
    lag = "compute_federation_projection_lag_seconds_count"
    projected = await total(on, "management", lag)
    await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
    await Lifecycle(on, within=WITHIN).settled(FIRST)

    for name, user in users.items():
        written = await total(on, name, HUB_WRITES) - counted[name]
        assert written == hub_writes(on, user) - audited[name], name
        # A deployment for each city; two Instances, each created, then reported.
        assert written >= (2 if name == "management" else 4), name
    for cell in ("dfw", "lhr"):
        assert await total(on, cell, "compute_federation_write_back_lag_seconds_count") >= 2
    assert await total(on, "management", lag) - projected >= 4
    assert await total(on, "management", "compute_federation_status_interpreter") >= 1
    assert await total(on, "management", "compute_federation_policies") >= 2


async def test_a_deployment_without_a_cell_is_counted_and_reported(on: KarmadaStage) -> None:
    run_kubectl_on(on.clusters.hub, "label", "cluster", "lhr", f"{CITY}-")
    try:
        await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
        reason = ("Warning", compute.REASON_NO_CELL_FOR_CITY)

        async def reported() -> str:
            found = await events_of(on, "web-default-lhr")
            return "" if reason in found else f"the Events are {found}"

        await eventually("an Event says so", reported, within=WITHIN)
        labels = ('condition="Scheduled"', f'reason="{reason[1]}"', 'name="web-default-lhr"')

        async def counted() -> str:
            for pod in on.managers["management"]:
                for series, value in (await pod.metrics()).items():
                    if series.startswith(CONDITION) and all(each in series for each in labels):
                        return "" if value == 0 else f"{series} is {value}"
            return "no series"

        await eventually("a metric says so", counted, within=WITHIN)
    finally:
        run_kubectl_on(on.clusters.hub, "label", "cluster", "lhr", f"{CITY}=LHR")
    await Lifecycle(on, within=WITHIN).settled(FIRST)


async def test_a_deletion_that_waits_for_its_cell_is_counted_and_reported(on: KarmadaStage) -> None:
    await on.project.create(compute.WORKLOADS, FIRST.to_create(), NAMESPACE)
    await Lifecycle(on, within=WITHIN).settled(FIRST)
    async with on.without("dfw"):
        await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        reason = compute.REASON_DRAIN_NOT_ACKNOWLEDGED
        labels = ('condition="Removed"', f'reason="{reason}"', 'name="web-default-dfw"')

        async def counted() -> str:
            for pod in on.managers["management"]:
                for series in await pod.metrics():
                    if series.startswith(CONDITION) and all(each in series for each in labels):
                        return ""
            return "no series"

        await eventually("a metric says what it waits for", counted, within=60)
        assert ("Warning", reason) in await events_of(on, "web-default-dfw")
    await until_gone(on.project, compute.WORKLOADS, "web", NAMESPACE, within=WITHIN)
