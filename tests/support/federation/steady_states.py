"""Steady states: how each is brought about, and how it is checked.

These need a federation with partitions, or a mode other than the usual one; afterwards no
process may write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.api.services import v1alpha1 as services
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.client.intercepted_transport import Rule
from tests.support.federation import crash_scenarios
from tests.support.federation.budgets import CELL, PROJECT, in_cell, refuse_kinds
from tests.support.federation.stage import (
    FEDERATED,
    NAMESPACE,
    SINGLE_CLUSTER,
    ManagerMode,
    Stage,
    deployment,
    stage,
)
from tests.support.objects import condition
from tests.support.simulation.platform import list_on_planes, workload

Arrangement = Callable[[Stage], Awaitable[None]]
WEB = "web-default-dfw"


@dataclass(frozen=True)
class SteadyState:
    arrange: Arrangement
    check: Arrangement
    """Fails where it does not stand so."""
    instances: int = 100
    cities: tuple[str, ...] = ("DFW",)
    mode: ManagerMode = FEDERATED
    approval_by_hand: bool = False
    refused: int = 0
    """The code with which quota is refused to the cell once there is something that runs."""
    kinds: tuple[str, ...] = field(
        default=(quota.RESOURCE_CLAIMS.plural, quota.ALLOWANCE_BUCKETS.plural)
    )
    """What is refused then."""

    @property
    def name(self) -> str:
        return f"{self.arrange.__name__}{self.refused or ''}"

    @asynccontextmanager
    async def stage(self) -> AsyncIterator[Stage]:
        """A stage in this state, or about to reach it."""
        rules: list[Rule] = []
        async with stage(
            cities=self.cities,
            grant={"instances": self.instances},
            mode=self.mode,
            approval_by_hand=self.approval_by_hand,
            wrap=in_cell(rules, plane="project/"),
        ) as on:
            await self.arrange(on)
            if self.refused:
                rules.append(refuse_kinds(self.refused, self.kinds))
                await web(on, "api")
            yield on


async def web(on: Stage, name: str = "web", city: str = "DFW") -> None:
    body = workload("acme/web:1", 2, (city,))
    body["metadata"]["name"] = name
    await on.project.create(compute.WORKLOADS, body, NAMESPACE)
    await asyncio.sleep(60)


async def check_condition(
    on: Stage, plane: str, resource: Resource, name: str, *wanted: str
) -> None:
    """Check a condition of an object: its type, status and reason."""
    found = {obj.name: obj for obj in await list_on_planes(on, resource, plane)}
    assert condition(found[name], wanted[0]) == wanted[1:], values(found[name].status)


async def serves(on: Stage, plane: str = PROJECT) -> None:
    for name in (f"{WEB}-0", f"{WEB}-1"):
        await check_condition(on, plane, compute.INSTANCES, name, "Ready", "True", "Available")


async def unscheduled(on: Stage, reason: str) -> None:
    wanted = ("Scheduled", "False", reason)
    await check_condition(on, PROJECT, compute.WORKLOAD_DEPLOYMENTS, WEB, *wanted)


# Modes.


async def quota_is_off(on: Stage) -> None:
    await web(on)


async def seen_without_quota(on: Stage) -> None:
    await serves(on)
    granted = ("QuotaGranted", "True", "QuotaDisabled")
    await check_condition(on, "cell/dfw", compute.INSTANCES, f"{WEB}-1", *granted)
    assert not (await on.project.list(quota.RESOURCE_CLAIMS)).items


async def networking_is_off(on: Stage) -> None:
    await web(on)


async def seen_without_networks(on: Stage) -> None:
    await serves(on)
    assert not await list_on_planes(on, networking.NETWORK_BINDINGS, "cell/dfw")


async def all_on_one_cluster(on: Stage) -> None:
    await crash_scenarios.deployed_alone(on)


async def seen_alone(on: Stage) -> None:
    await serves(on, "cell/dfw")
    assert not await list_on_planes(on, compute.INSTANCES, "hub", PROJECT)


async def denied_on_one_cluster(on: Stage) -> None:
    await crash_scenarios.deployed_alone(on)


async def seen_denied_alone(on: Stage) -> None:
    denied = ("QuotaGranted", "False", "QuotaExceeded")
    await check_condition(on, "cell/dfw", compute.INSTANCES, f"{WEB}-1", *denied)


# Projects and their rights.


async def project_deleted(on: Stage) -> None:
    await web(on)
    await on.client("root").delete(resourcemanager.PROJECTS, "demo")


async def seen_without_project(on: Stage) -> None:
    assert not (await on.client("root").list(resourcemanager.PROJECTS)).items
    assert not await list_on_planes(on, compute.WORKLOAD_DEPLOYMENTS, "cell/dfw", "hub")


async def approval_pending(on: Stage) -> None:
    await crash_scenarios.create_project(on)


async def seen_pending(on: Stage) -> None:
    acme = on.client("project/acme")
    found = await acme.get(services.SERVICE_ENTITLEMENTS, services.ENTITLEMENT_COMPUTE)
    assert condition(found, "Ready") == ("False", "EntitlementPendingApproval")


# Where nothing can run.


async def no_cell_for_the_city(on: Stage) -> None:
    body = merge({"metadata": {"labels": {"topology.datum.net/city-code": None}}})
    await on.hub.patch(karmada.CLUSTERS, "dfw", body)
    await web(on)


async def seen_without_cell(on: Stage) -> None:
    await unscheduled(on, "NoCellForCity")


async def two_cells_for_the_city(on: Stage) -> None:
    """A policy of another owner, with a higher priority than ours, sends a deployment to both."""
    await web(on, "api")
    kind = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment"}
    spec = {
        "priority": 10,
        "resourceSelectors": [{**kind, "name": WEB}],
        "placement": {"clusterAffinity": {"clusterNames": ["dfw", "lhr"]}},
    }
    body = {"metadata": {"name": "mine"}, "spec": spec}
    await on.hub.create(karmada.PROPAGATION_POLICIES, body, on.hub_namespace)
    await web(on)


async def seen_ambiguous(on: Stage) -> None:
    await unscheduled(on, "AmbiguousCell")


async def no_subnet_is_left(on: Stage) -> None:
    await web(on, "api", "LHR")
    [taken] = await list_on_planes(on, networking.SUBNETS, "cell/lhr")
    spec = {**values(taken.spec), "startAddress": "10.128.0.0", "prefixLength": 9}
    body = {"metadata": {"name": "everything"}, "spec": spec}
    await on.cell("LHR").create(networking.SUBNETS, body, taken.namespace)
    await web(on)


async def seen_exhausted(on: Stage) -> None:
    [claim] = await list_on_planes(on, networking.SUBNET_CLAIMS, "cell/dfw")
    assert condition(claim, "Allocated") == ("False", "PoolExhausted")
    [first] = await list_on_planes(on, compute.INSTANCES, "cell/dfw")
    assert compute.GATE_NETWORK in first.view(compute.Instance).gates


# Objects created by hand.


async def strays_on_the_hub(on: Stage) -> None:
    """Instances without labels, or of a deployment that never existed."""
    await web(on)
    [first, _] = await list_on_planes(on, compute.INSTANCES, "hub")
    named = {**first.metadata.labels, compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: "unowned"}
    for name, labels in (("odd", {}), ("unowned-0", named)):
        body = {"metadata": {"name": name, "labels": labels}, "spec": values(first.spec)}
        await on.hub.create(compute.INSTANCES, body, on.hub_namespace)


async def seen_nowhere(on: Stage) -> None:
    shown = {obj.name for obj in await list_on_planes(on, compute.INSTANCES, PROJECT)}
    assert shown == {f"{WEB}-0", f"{WEB}-1"}
    # The cell sweeps the one with its name; the other is not touched.
    kept = {obj.name for obj in await list_on_planes(on, compute.INSTANCES, "hub")}
    assert kept == {*shown, "odd"}


async def strays_in_the_cell(on: Stage) -> None:
    """An Instance of no deployment, and a claim of no Instance."""
    await web(on)
    [first, _] = await list_on_planes(on, compute.INSTANCES, "cell/dfw")
    body = {"metadata": {"name": "odd"}, "spec": values(first.spec)}
    await on.cell().create(compute.INSTANCES, body, on.hub_namespace)
    [claim, _] = (await on.project.list(quota.RESOURCE_CLAIMS)).items
    body = {"metadata": {"name": "instance-odd"}, "spec": values(claim.spec)}
    await on.project.create(quota.RESOURCE_CLAIMS, body, claim.namespace)


async def seen_beside(on: Stage) -> None:
    await serves(on)
    found = {obj.name for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")}
    assert found == {f"{WEB}-0", f"{WEB}-1", "odd"}
    claims = {obj.name for obj in (await on.project.list(quota.RESOURCE_CLAIMS)).items}
    assert claims >= {f"instance-{WEB}-0", f"instance-{WEB}-1"}


async def strays_in_the_project(on: Stage) -> None:
    """A deployment of no workload, and an Instance that runs nowhere."""
    await web(on)
    await on.project.create(compute.WORKLOAD_DEPLOYMENTS, deployment("mine"), NAMESPACE)
    [first, _] = await list_on_planes(on, compute.INSTANCES, PROJECT)
    body = {"metadata": {"name": "odd"}, "spec": values(first.spec)}
    await on.project.create(compute.INSTANCES, body, NAMESPACE)


async def seen_served(on: Stage) -> None:
    await serves(on)
    await check_condition(on, PROJECT, compute.INSTANCES, "mine-0", "Ready", "True", "Available")


# Unreachable planes, with running and waiting Instances.


async def hub_out_of_reach(on: Stage) -> None:
    await web(on)
    on.network.partition({"compute-management"}, {"hub"}, silent=False)
    await web(on, "api")
    await on.project.delete(compute.WORKLOADS, "web", NAMESPACE)


async def hub_that_is_silent(on: Stage) -> None:
    await web(on)
    on.network.partition({"compute-management"}, {"hub"}, silent=True)
    await web(on, "api")


async def seen_unfederated(on: Stage) -> None:
    assert len(await list_on_planes(on, compute.WORKLOAD_DEPLOYMENTS, PROJECT)) == 2
    found = {obj.name for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")}
    assert found == {f"{WEB}-0", f"{WEB}-1"}


async def quota_out_of_reach(on: Stage) -> None:
    await web(on)
    on.network.partition({CELL}, {PROJECT}, silent=False)
    await web(on, "api")


async def quota_that_is_refused(on: Stage) -> None:
    await web(on)


async def seen_waiting_for_quota(on: Stage) -> None:
    await serves(on)
    found = {obj.name: obj for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")}
    assert compute.GATE_QUOTA in found["api-default-dfw-0"].view(compute.Instance).gates


STEADY_STATES = [
    SteadyState(quota_is_off, seen_without_quota, mode=ManagerMode(quota=False)),
    SteadyState(networking_is_off, seen_without_networks, mode=ManagerMode(networking=False)),
    SteadyState(all_on_one_cluster, seen_alone, mode=SINGLE_CLUSTER),
    SteadyState(denied_on_one_cluster, seen_denied_alone, mode=SINGLE_CLUSTER, instances=1),
    SteadyState(project_deleted, seen_without_project),
    SteadyState(approval_pending, seen_pending, approval_by_hand=True),
    SteadyState(no_cell_for_the_city, seen_without_cell),
    SteadyState(two_cells_for_the_city, seen_ambiguous, cities=("DFW", "LHR")),
    SteadyState(no_subnet_is_left, seen_exhausted, cities=("DFW", "LHR")),
    SteadyState(strays_on_the_hub, seen_nowhere),
    SteadyState(strays_in_the_cell, seen_beside),
    SteadyState(strays_in_the_project, seen_served),
    SteadyState(hub_out_of_reach, seen_unfederated),
    SteadyState(hub_that_is_silent, seen_unfederated),
    SteadyState(quota_out_of_reach, seen_waiting_for_quota),
    SteadyState(quota_that_is_refused, seen_waiting_for_quota, refused=403),
    SteadyState(quota_that_is_refused, seen_waiting_for_quota, refused=500),
]
