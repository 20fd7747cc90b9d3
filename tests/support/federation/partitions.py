"""Steps and checks of tests with a disconnected cell."""

from __future__ import annotations

import re
from collections.abc import Callable

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.environment import START
from datum_compute.testing.expectations import eventually
from tests.support.federation import stage
from tests.support.objects import condition, message
from tests.support.simulation.platform import (
    NAMESPACE,
    RunningPlatform,
    apply,
    list_on_planes,
    missing_for_image,
    workload,
)

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
RECONNECTED_WITHIN = 60.0
"""Seconds after its reconnect in which everything matches the spec. Karmada needs half a minute
of good probes; half a minute is also the longest backoff of a watch."""
SHORT_PARTITION_RECOVERY = 10.0
"""The same after a partition too short for Karmada to notice."""
NOTICED_AFTER = 2 * MINUTE
DEPLOYMENT = "web-default-dfw"
MANAGER, PROVIDER = "compute-cell-dfw", "provider-dfw"
PROJECT = "project/demo"


def cut_off(on: stage.Stage, *, silent: bool = False) -> None:
    """Every connection between the cell and the centre, in both directions."""
    within = {MANAGER, PROVIDER, "cell/dfw", "standin-network"}
    beyond = {"root", "hub", PROJECT, *(set(on.parts) - within)}
    on.network.partition(within, beyond, silent=silent)


async def in_cell(platform: RunningPlatform) -> dict[str, Object]:
    return {obj.name: obj for obj in await list_on_planes(platform, compute.INSTANCES, "cell/dfw")}


async def uids_in_cell(platform: RunningPlatform) -> dict[str, str]:
    return {name: obj.metadata.uid for name, obj in (await in_cell(platform)).items()}


async def cell_deployment(platform: RunningPlatform) -> Object:
    [found] = await list_on_planes(platform, compute.WORKLOAD_DEPLOYMENTS, "cell/dfw")
    return found


async def order(platform: RunningPlatform, minimum: int, image: str) -> None:
    """Change the deployment within the cell, as its operator does while disconnected."""
    found = await cell_deployment(platform)
    template = workload(image, minimum)["spec"]["template"]
    body = {"spec": {"scaleSettings": {"minReplicas": minimum}, "template": template}}
    await platform.client("cell/dfw").patch(
        compute.WORKLOAD_DEPLOYMENTS, found.name, merge(body), found.namespace
    )


async def deployed(platform: RunningPlatform) -> dict[str, str]:
    """Deploy two Instances in each of two cities; those of the cell, by their uids."""
    await apply(platform, workload("acme/web:1", 2))
    await eventually("deployed", lambda: missing_for_image(platform, "acme/web:1", 4))
    return await uids_in_cell(platform)


async def disconnect_after_deploy(
    platform: RunningPlatform, cut: Callable[[], object]
) -> dict[str, str]:
    """Deploy to two cities, disconnect one, and change the spec on both sides."""
    uids = await deployed(platform)
    cut()
    await apply(platform, workload("acme/web:2", 3))
    await order(platform, 3, "acme/web:2")
    return uids


async def check_still_runs(platform: RunningPlatform, uids: dict[str, str]) -> None:
    """No running Instance was deleted or changed, and the project shows the same."""
    found = await in_cell(platform)
    assert {name: found[name].metadata.uid for name in uids} == uids
    for name in uids:
        assert condition(found[name], "Ready") == ("True", "Available"), name
        assert not found[name].metadata.deleting
    shown = await list_on_planes(
        platform, compute.INSTANCES, f"project/{platform.settings.project}"
    )
    assert set(uids) <= {obj.name for obj in shown}
    assert platform.commit_checker is not None
    assert not platform.commit_checker.broken, platform.commit_checker.broken


async def check_held_back(platform: RunningPlatform, uids: dict[str, str]) -> None:
    """Rolls are held with a reason; new Instances wait at their gates."""
    reported = await cell_deployment(platform)
    assert "CellDisconnected" in message(reported, "ReplicasReady")
    assert condition(reported, "Available") == ("True", "StableInstanceFound")
    found = await in_cell(platform)
    assert set(found) == {*uids, f"{DEPLOYMENT}-2"}
    waits = found[f"{DEPLOYMENT}-2"]
    assert waits.view(compute.Instance).gates == (compute.GATE_QUOTA,)
    assert condition(waits, "Ready")[0] == "False"


async def check_reported_unreachable(platform: RunningPlatform, cut_at: float) -> None:
    """The project keeps the last report, and shows its age."""
    obj = await platform.project.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
    reachable = conditions.find(
        obj.view(compute.WorkloadDeployment).status.conditions, "CellReachable"
    )
    assert reachable is not None
    assert reachable.status == "False"
    since = reachable.last_transition_time
    assert since is not None
    assert 0 <= (since - START).total_seconds() - cut_at < NOTICED_AFTER
    assert conditions.wire_time(since) in reachable.message
    assert condition(obj, "Available") == ("True", "StableInstanceFound")
    assert values(obj.status)["readyReplicas"] == 2
    shown = await platform.project.get(compute.WORKLOADS, "web", NAMESPACE)
    assert condition(shown, "Available")[0] == "True"
    assert re.search(
        rf"DFW: .*since {re.escape(conditions.wire_time(since))}", message(shown, "Available")
    )


async def errors_of(platform: RunningPlatform) -> dict[str, float]:
    """Failed reconciles so far, of the controllers of the cells."""
    text = (await platform.client("root").raw("/metrics")).decode()
    found = re.findall(
        r"^controller_runtime_reconcile_errors_total\{([^}]*)\} (\S+)", text, re.MULTILINE
    )
    counts = {labels: float(count) for labels, count in found}
    return {name: counts[f'controller="{name}"'] for name in ("instance", "workload-deployment")}


async def reconnect(
    platform: RunningPlatform, connect: Callable[[], object], *, within: float = RECONNECTED_WITHIN
) -> None:
    connect()
    await eventually(
        "as wanted", lambda: missing_for_image(platform, "acme/web:2", 6), within=within
    )
    await check_reachable(platform)


async def check_reachable(platform: RunningPlatform) -> None:
    """The project reports the cell as reachable, and no rule was broken."""

    async def reported() -> str:
        obj = await platform.project.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
        status, _ = condition(obj, "CellReachable")
        return "" if status == "True" else f"CellReachable is {status}"

    await eventually("reported as reachable", reported, within=RECONNECTED_WITHIN)
    assert platform.commit_checker is not None
    assert not platform.commit_checker.broken, platform.commit_checker.broken
