"""Grants: one that makes sense is active, and only active ones count."""

from __future__ import annotations

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.env import Environment
from datum_compute.runtime import patch
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.mapping import itself
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result


def grant_controller(projects: Fleet, env: Environment) -> Controller:
    async def reconcile(request: Request) -> Result:
        project = projects.get(request.cluster)
        if project is None:
            return DONE
        grant = project.cache(quota.RESOURCE_GRANTS).get(request.name, request.namespace)
        if grant is None or grant.metadata.deleting:
            return DONE
        status = {**patch.values(grant.status), "conditions": _conditions(grant, env)}
        await patch.write_status(project.client, quota.RESOURCE_GRANTS, grant, status)
        return DONE

    return Controller(
        "quota-grant", projects, reconcile, watches=[Watch(projects, quota.RESOURCE_GRANTS, itself)]
    )


def decide_fault(grant: quota.ResourceGrant) -> str:
    """What is wrong with a grant, or empty."""
    if not grant.spec.consumer_ref.kind or not grant.spec.consumer_ref.name:
        return "spec.consumerRef: kind and name are required"
    named = [allowance.resource_type for allowance in grant.spec.allowances]
    repeated = sorted({name for name in named if named.count(name) > 1})
    if repeated:
        return f"spec.allowances: resource types given more than once: {', '.join(repeated)}"
    return ""


def _conditions(obj: Object, env: Environment) -> list[dict[str, object]]:
    grant = obj.view(quota.ResourceGrant)
    fault = decide_fault(grant)
    return conditions.to_wire(
        conditions.with_condition(
            grant.status.conditions,
            quota.CONDITION_ACTIVE,
            conditions.FALSE if fault else conditions.TRUE,
            quota.REASON_VALIDATION_FAILED if fault else quota.REASON_GRANT_ACTIVE,
            fault or "Grant is active",
            now=env.now(),
            observed_generation=obj.metadata.generation,
        )
    )
