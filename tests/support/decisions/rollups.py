"""Instances in and the status of their WorkloadDeployment out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances.plan import Delete, DeleteReason, HeldStep, InstancePlan
from datum_compute.decisions.rollup.deployment import DeploymentContext, decide_deployment_status
from tests.support.decisions.builders import NOW, condition, deployment, instance


def decide(
    *instances: compute.Instance,
    of: compute.WorkloadDeployment | None = None,
    around: DeploymentContext | None = None,
    held: Sequence[HeldStep] = (),
    plan: InstancePlan | None = None,
) -> compute.WorkloadDeploymentStatus:
    return decide_deployment_status(
        of or deployment(minimum=2),
        instances,
        template_hash="new",
        context=around or DeploymentContext(),
        plan=plan or InstancePlan(held=tuple(held)),
        now=NOW,
    )


def condition_values(status: compute.WorkloadDeploymentStatus, type: str) -> tuple[str, str, str]:
    found = conditions.find(status.conditions, type)
    assert found is not None
    return found.status, found.reason, found.message


def unready(ordinal: int, reason: str, message: str = "", **more: Any) -> compute.Instance:
    return instance(ordinal, conditions=[condition("Ready", "False", reason, message)], **more)


def held(*reasons: DeleteReason) -> list[HeldStep]:
    deletes = [Delete(f"web-{n}", f"uid-{n}", n, reason) for n, reason in enumerate(reasons)]
    return [HeldStep(each, "CellDisconnected") for each in deletes]
