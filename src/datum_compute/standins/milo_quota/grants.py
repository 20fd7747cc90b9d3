"""Grants: one that makes sense is active, and only active ones count.

A grant for something nobody registered does not make sense, until somebody does. One that is
active stays so while it is not changed: nothing that was granted goes with a registration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch
from datum_compute.standins.milo_quota.registrations import rules_of


def grant_controller(projects: Fleet, root: Fleet, env: Environment) -> Controller:
    async def reconcile(request: Request) -> Result:
        project = projects.get(request.cluster)
        if project is None:
            return DONE
        grant = project.cache(quota.RESOURCE_GRANTS).get(request.name, request.namespace)
        if grant is None or grant.metadata.deleting or _is_settled(grant):
            return DONE
        known = _registered(root)
        if known is None:
            raise Waiting("the registrations are not known yet", 1.0)
        status = {**patch.values(grant.status), "conditions": _conditions(grant, known, env)}
        await patch.write_status(project.client, quota.RESOURCE_GRANTS, grant, status)
        return DONE

    def all_grants(_: str, __: Object) -> Iterable[Request]:
        for project in projects.clusters():
            for grant in project.cache(quota.RESOURCE_GRANTS).list():
                yield Request(project.name, grant.namespace, grant.name)

    return Controller(
        "quota-grant",
        projects,
        reconcile,
        watches=[
            Watch(projects, quota.RESOURCE_GRANTS, itself),
            Watch(root, quota.RESOURCE_REGISTRATIONS, all_grants),
        ],
    )


def _registered(root: Fleet) -> Collection[str] | None:
    """The resource types that can be granted; None while nobody knows."""
    for cluster in root.clusters():
        found = cluster.cache(quota.RESOURCE_REGISTRATIONS)
        return rules_of(found.list()) if found.synced else None
    return None


def _is_settled(grant: Object) -> bool:
    active = conditions.find(
        grant.view(quota.ResourceGrant).status.conditions, quota.CONDITION_ACTIVE
    )
    return (
        active is not None
        and active.status == conditions.TRUE
        and active.observed_generation == grant.metadata.generation
    )


def decide_fault(grant: quota.ResourceGrant, registered: Collection[str]) -> str:
    """What is wrong with a grant, or empty."""
    if not grant.spec.consumer_ref.kind or not grant.spec.consumer_ref.name:
        return "spec.consumerRef: kind and name are required"
    named = [allowance.resource_type for allowance in grant.spec.allowances]
    repeated = sorted({name for name in named if named.count(name) > 1})
    if repeated:
        return f"spec.allowances: resource types given more than once: {', '.join(repeated)}"
    unknown = sorted({name for name in named if name not in registered})
    if unknown:
        return f"spec.allowances: resource types nobody registered: {', '.join(unknown)}"
    return ""


def _conditions(
    obj: Object, registered: Collection[str], env: Environment
) -> list[dict[str, object]]:
    grant = obj.view(quota.ResourceGrant)
    fault = decide_fault(grant, registered)
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
