"""The steps of stories about a cell that is cut off: what is asked of it, and what must hold."""

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
"""Seconds after its return in which everything is as wanted. Karmada believes in a member
after half a minute of answers; half a minute is also the longest pause of a watch."""
SHORT_PARTITION_RECOVERY = 10.0
"""The same after a cut so short that Karmada has not noticed."""
NOTICED_AFTER = 2 * MINUTE
DEPLOYMENT = "web-default-dfw"
MANAGER, PROVIDER = "compute-cell-dfw", "provider-dfw"
PROJECT = "project/demo"


def cut_off(on: stage.Stage, *, silent: bool = False) -> None:
    """Every line between the cell and the centre, in both directions."""
    within = {MANAGER, PROVIDER, "cell/dfw", "standin-network"}
    beyond = {"root", "hub", PROJECT, *(set(on.parts) - within)}
    on.network.partition(within, beyond, silent=silent)


async def in_cell(life: RunningPlatform) -> dict[str, Object]:
    return {obj.name: obj for obj in await list_on_planes(life, compute.INSTANCES, "cell/dfw")}


async def uids_in_cell(life: RunningPlatform) -> dict[str, str]:
    return {name: obj.metadata.uid for name, obj in (await in_cell(life)).items()}


async def cell_deployment(life: RunningPlatform) -> Object:
    [found] = await list_on_planes(life, compute.WORKLOAD_DEPLOYMENTS, "cell/dfw")
    return found


async def order(life: RunningPlatform, minimum: int, image: str) -> None:
    """Given within the cell, as its operator does when the centre is away."""
    found = await cell_deployment(life)
    template = workload(image, minimum)["spec"]["template"]
    body = {"spec": {"scaleSettings": {"minReplicas": minimum}, "template": template}}
    await life.client("cell/dfw").patch(
        compute.WORKLOAD_DEPLOYMENTS, found.name, merge(body), found.namespace
    )


async def deployed(life: RunningPlatform) -> dict[str, str]:
    """Two cities serve, two Instances each; those of the cell, by their uids."""
    await apply(life, workload("acme/web:1", 2))
    await eventually("deployed", lambda: missing_for_image(life, "acme/web:1", 4))
    return await uids_in_cell(life)


async def disconnect_after_deploy(
    life: RunningPlatform, cut: Callable[[], object]
) -> dict[str, str]:
    """Two cities serve, then the line to one breaks; both ends are told of new wishes."""
    uids = await deployed(life)
    cut()
    await apply(life, workload("acme/web:2", 3))
    await order(life, 3, "acme/web:2")
    return uids


async def check_still_runs(life: RunningPlatform, uids: dict[str, str]) -> None:
    """Nothing that ran was deleted or changed, and nobody tells otherwise."""
    found = await in_cell(life)
    assert {name: found[name].metadata.uid for name in uids} == uids
    for name in uids:
        assert condition(found[name], "Ready") == ("True", "Available"), name
        assert not found[name].metadata.deleting
    shown = await list_on_planes(life, compute.INSTANCES, f"project/{life.settings.project}")
    assert set(uids) <= {obj.name for obj in shown}
    assert life.commit_checker is not None
    assert not life.commit_checker.broken, life.commit_checker.broken


async def check_held_back(life: RunningPlatform, uids: dict[str, str]) -> None:
    """Rolls wait and say why; what is new waits at its gate."""
    reported = await cell_deployment(life)
    assert "CellDisconnected" in message(reported, "ReplicasReady")
    assert condition(reported, "Available") == ("True", "StableInstanceFound")
    found = await in_cell(life)
    assert set(found) == {*uids, f"{DEPLOYMENT}-2"}
    waits = found[f"{DEPLOYMENT}-2"]
    assert waits.view(compute.Instance).gates == (compute.GATE_QUOTA,)
    assert condition(waits, "Ready")[0] == "False"


async def check_reported_unreachable(life: RunningPlatform, cut_at: float) -> None:
    """The project keeps the last report, and says how old it is."""
    obj = await life.project.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
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
    shown = await life.project.get(compute.WORKLOADS, "web", NAMESPACE)
    assert condition(shown, "Available")[0] == "True"
    assert re.search(
        rf"DFW: .*since {re.escape(conditions.wire_time(since))}", message(shown, "Available")
    )


async def errors_of(life: RunningPlatform) -> dict[str, float]:
    """Failed passes so far, of the controllers of the cells."""
    text = (await life.client("root").raw("/metrics")).decode()
    found = re.findall(
        r"^controller_runtime_reconcile_errors_total\{([^}]*)\} (\S+)", text, re.MULTILINE
    )
    counts = {labels: float(count) for labels, count in found}
    return {name: counts[f'controller="{name}"'] for name in ("instance", "workload-deployment")}


async def reconnect(
    life: RunningPlatform, connect: Callable[[], object], *, within: float = RECONNECTED_WITHIN
) -> None:
    connect()
    await eventually("as wanted", lambda: missing_for_image(life, "acme/web:2", 6), within=within)
    await check_reachable(life)


async def check_reachable(life: RunningPlatform) -> None:
    """The project says that the cell is back, and nothing was done that must not be."""

    async def reported() -> str:
        obj = await life.project.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, NAMESPACE)
        status, _ = condition(obj, "CellReachable")
        return "" if status == "True" else f"CellReachable is {status}"

    await eventually("told as reachable", reported, within=RECONNECTED_WITHIN)
    assert life.commit_checker is not None
    assert not life.commit_checker.broken, life.commit_checker.broken
