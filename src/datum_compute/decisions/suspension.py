"""Who stops a deployment: its Workload, its project, or a user who stopped it by itself.

All of them write one annotation. The Workload controller writes and removes only its own two
values, so that starting a Workload does not start a city that a user has stopped, and any other
text, also one of another program, counts as a user's.
"""

from __future__ import annotations

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.services import v1alpha1 as services

CONTROLLED = (compute.SUSPENDED_BY_WORKLOAD, compute.SUSPENDED_BY_PROJECT)
"""The values that the Workload controller writes."""


def decide_suspended_by(
    workload: compute.Workload, current: str, *, project_suspended: bool | None
) -> str | None:
    """The value for a deployment that has ``current``; None for no annotation.
    ``project_suspended`` is None while that is not known: what it led to then stays."""
    if current and current not in CONTROLLED:
        return current
    if project_suspended is None:
        project_suspended = current == compute.SUSPENDED_BY_PROJECT
    if project_suspended:
        return compute.SUSPENDED_BY_PROJECT
    stopped = workload.metadata.annotations.get(compute.ANNOTATION_SUSPENDED)
    return compute.SUSPENDED_BY_WORKLOAD if stopped else None


def is_stopped_with_workload(deployment: compute.WorkloadDeployment) -> bool:
    return deployment.suspended_by in CONTROLLED


def is_stopped_alone(deployment: compute.WorkloadDeployment) -> bool:
    return bool(deployment.suspended_by) and deployment.suspended_by not in CONTROLLED


def is_project_suspended(entitlement: services.ServiceEntitlement) -> bool:
    return conditions.is_true(entitlement.status.conditions, services.CONDITION_SUSPENDED)
