"""The status of a project's deployment: the cell's report, and what only the hub knows.

The report is copied unchanged. The federator adds whether exactly one cell has the deployment and
whether that cell is reachable. Otherwise no cell's report counts, so the federator also writes why
nothing is available.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from datum_compute.api import conditions, karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import FALSE, TRUE, Condition, Conditions
from datum_compute.api.meta import Object
from datum_compute.runtime.cache.quarantine import readable
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes.patch import status_values

OWN_CONDITIONS = (
    compute.CONDITION_SCHEDULED,
    compute.CONDITION_CELL_REACHABLE,
    compute.CONDITION_PROPAGATED,
    compute.CONDITION_REMOVED,
)
CELL_CONDITIONS = (compute.CONDITION_AVAILABLE, compute.CONDITION_REPLICAS_READY)
"""Conditions of the cell, which the federator writes while ``Scheduled`` is False."""

_NO_CELL = (karmada.REASON_NO_CLUSTER_FIT, "Unschedulable")
"""Reasons of a binding which mean that no cluster serves the city. Others are scheduler faults."""

_WITHOUT_CELL = (compute.REASON_NO_CELL_FOR_CITY, compute.REASON_NOT_PROPAGATED)
"""Reasons of ``Scheduled`` with which no cell runs the deployment."""

_COUNTERS = ("replicas", "currentReplicas", "updatedReplicas", "desiredReplicas", "readyReplicas")


@dataclass(frozen=True, slots=True)
class Route:
    """Where Karmada has placed a deployment."""

    cells: tuple[str, ...]
    scheduled: Condition | None
    reachable: bool | None
    """None while unknown: no cell yet, or its Cluster has not been probed."""
    unreachable_since: datetime | None
    refusal: str = ""
    """Why the cell does not accept the current spec; empty when it does."""
    lost: bool = False
    """Whether the hub does not propagate the deployment at all."""
    behind: bool = False
    """Whether the cell answers, and has not reported on the present spec."""
    behind_since: datetime | None = None
    """Since when, where that is longer than usual."""
    hub_refusal: str = ""
    """Why the hub does not accept the current spec; empty when it does."""
    removal: tuple[str, str] | None = None
    """Reason and message of what a deletion waits for."""

    @property
    def sole_cell(self) -> str:
        return self.cells[0] if len(self.cells) == 1 else ""


def route_of(hub: Cluster, binding: Object | None) -> Route:
    if binding is None:
        return Route((), None, None, None)
    view = binding.view(karmada.ResourceBinding)
    cells = tuple(cluster.name for cluster in view.spec.clusters)
    scheduled = conditions.find(view.status.conditions, karmada.CONDITION_SCHEDULED)
    reachable, since = _reachable(hub, cells)
    return Route(cells, scheduled, reachable, since, refusal_in(view))


def refusal_in(binding: karmada.ResourceBinding) -> str:
    """The message of the first cell that did not accept the deployment."""
    failed = (item for item in binding.status.aggregated_status if not item.applied)
    return next((item.applied_message for item in failed if item.applied_message), "")


def _reachable(hub: Cluster, cells: tuple[str, ...]) -> tuple[bool | None, datetime | None]:
    if not cells:
        return None, None
    cluster = hub.cache(karmada.CLUSTERS).get(cells[0])
    if cluster is None:
        return False, None
    ready = conditions.find(
        cluster.view(karmada.Cluster).status.conditions, karmada.CONDITION_READY
    )
    if ready is None:
        return None, None
    return ready.status == TRUE, ready.last_transition_time


def build_status(
    deployment: Object, hub_deployment: Object | None, route: Route, now: datetime
) -> dict[str, Any] | None:
    """The wanted status of the project's deployment; None while there is nothing to report."""
    report = _report_of(deployment, hub_deployment)
    present = deployment.view(compute.WorkloadDeployment).status.conditions
    if _has_no_cell(deployment, route):
        # The hub copy may still have the report of a cell that no longer has the deployment, and
        # CellReachable would be about that cell. No cell reports desiredReplicas then.
        report = {"desiredReplicas": _desired_replicas(deployment)}
        present = conditions.without(present, compute.CONDITION_CELL_REACHABLE)
    reported = _report_conditions(report)
    merged = conditions.without(reported, *OWN_CONDITIONS)
    for type_ in OWN_CONDITIONS:
        # The present ones stay while the route is unknown. A report has none of its own: these
        # conditions are never the cell's.
        own = conditions.find(present, type_)
        merged = conditions.merged(merged, own) if own else merged
    if not route.behind:
        merged = conditions.without(merged, compute.CONDITION_PROPAGATED)
    merged = _with_own(merged, present, deployment, route, now)
    if not report and not merged:
        return None
    counters = dict.fromkeys(_COUNTERS, 0)
    return {**counters, **report, "conditions": conditions.to_wire(merged)}


def _with_own(
    merged: Conditions, present: Conditions, deployment: Object, route: Route, now: datetime
) -> Conditions:
    generation = deployment.metadata.generation

    def add(
        into: Conditions,
        type_: str,
        status: str,
        reason: str,
        message: str,
        since: datetime = now,
    ) -> Conditions:
        # The transition time follows the present condition in the project, not the report's.
        previous = conditions.find(present, type_)
        base = conditions.without(into, type_) + ((previous,) if previous else ())
        stated = conditions.with_condition(
            base, type_, status, reason, message, now=since, observed_generation=generation
        )
        ours = conditions.find(stated, type_)
        return conditions.merged(into, ours) if ours else into

    if route.removal is not None:
        merged = add(merged, compute.CONDITION_REMOVED, FALSE, *route.removal)
    scheduled_now = _scheduling(deployment, route)
    if scheduled_now is not None:
        status, reason, message = scheduled_now
        merged = add(merged, compute.CONDITION_SCHEDULED, status, reason, message)
        if status == FALSE:
            for type_ in CELL_CONDITIONS:
                merged = add(merged, type_, FALSE, reason, message)
    if route.lost:
        return merged  # whether the cell answers says nothing about this deployment
    if route.behind_since is not None:
        merged = add(
            merged,
            compute.CONDITION_PROPAGATED,
            FALSE,
            compute.REASON_CELL_BEHIND,
            _behind_message(route),
            route.behind_since,
        )
    if route.reachable:
        cell = route.cells[0]
        merged = add(
            merged,
            compute.CONDITION_CELL_REACHABLE,
            TRUE,
            compute.REASON_CELL_READY,
            f"Cell {cell} answers",
        )
    elif route.reachable is False:
        merged = add(
            merged,
            compute.CONDITION_CELL_REACHABLE,
            FALSE,
            compute.REASON_CELL_UNREACHABLE,
            _unreachable_message(route),
        )
    return merged


def _scheduling(deployment: Object, route: Route) -> tuple[str, str, str] | None:
    """Status, reason and message of ``Scheduled``; None while Karmada has not decided."""
    city = deployment.view(compute.WorkloadDeployment).spec.city_code
    if route.lost:
        message = "The hub sends this deployment to no cell; it has been asked to look again"
        return FALSE, compute.REASON_NOT_PROPAGATED, message
    if len(route.cells) > 1:
        listed = ", ".join(sorted(route.cells))
        message = f"City {city} is served by more than one cell: {listed}"
        return FALSE, compute.REASON_AMBIGUOUS_CELL, message
    if route.sole_cell:
        message = f"Cell {route.sole_cell} runs this deployment"
        if route.refusal:
            message = f"{message}, but has not applied its current spec: {route.refusal}"
        elif route.hub_refusal:
            message = f"{message}, but the hub rejects its current spec: {route.hub_refusal}"
        return TRUE, compute.REASON_SCHEDULED, message
    scheduled = route.scheduled
    if scheduled is not None and scheduled.status == FALSE and scheduled.reason in _NO_CELL:
        return FALSE, compute.REASON_NO_CELL_FOR_CITY, f"No cell serves city {city}"
    if route.hub_refusal:
        return FALSE, compute.REASON_HUB_REFUSED, f"The hub rejects it: {route.hub_refusal}"
    return None


def _has_no_cell(deployment: Object, route: Route) -> bool:
    """Whether it is certain that no cell runs the deployment."""
    scheduled_now = _scheduling(deployment, route)
    return scheduled_now is not None and scheduled_now[1] in _WITHOUT_CELL


def _desired_replicas(deployment: Object) -> int:
    view = deployment.view(compute.WorkloadDeployment)
    return 0 if view.metadata.deleting else view.spec.scale_settings.min_replicas


def _unreachable_message(route: Route) -> str:
    cell = route.cells[0]
    if route.unreachable_since is None:
        return f"Cell {cell} is not registered with the hub"
    since = conditions.wire_time(route.unreachable_since)
    # Karmada reports a cell as lost only after its probes have failed for some time.
    return f"No answer from cell {cell} since {since} at the latest; its last report is shown"


def _behind_message(route: Route) -> str:
    cause = f": {route.refusal}" if route.refusal else ""
    return (
        f"Cell {route.sole_cell} answers, but has not reported on the present spec; the hub has"
        f" been asked to send it again{cause}"
    )


def _report_of(deployment: Object, hub_deployment: Object | None) -> dict[str, Any]:
    """What the cell reports; the last known report where the present one cannot be read."""
    if hub_deployment is None:
        return {}
    readable((hub_deployment,), compute.WorkloadDeployment)
    return status_values(deployment if hub_deployment.has_unreadable_status else hub_deployment)


def _report_conditions(report: dict[str, Any]) -> Conditions:
    return msgspec.convert(report.get("conditions") or [], Conditions)
