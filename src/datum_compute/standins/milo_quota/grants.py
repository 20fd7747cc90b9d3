"""Grants: a valid one becomes active, and only active ones count.

A grant of an unregistered resource type is invalid until the type is registered. An active grant
stays active until it is changed: deleting a registration revokes no grant.
"""

from __future__ import annotations

from collections.abc import Collection

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.result import Waiting
from datum_compute.runtime.watches.mapping import all_in_fleet
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions
from datum_compute.standins.milo_quota.registrations import rules_of


def grant_controller(projects: Fleet, root: Fleet, env: Environment) -> Controller:
    async def reconcile(project: Cluster, grant: Object) -> None:
        if _is_settled(grant):
            return
        registered = _registered(root)
        if registered is None:
            raise Waiting("the registrations are not synced yet", 1.0)
        active = _active(decide_fault(grant.view(quota.ResourceGrant), registered))
        await write_conditions(project.client, quota.RESOURCE_GRANTS, grant, active, now=env.now())

    all_grants = all_in_fleet(projects, quota.RESOURCE_GRANTS)
    return Controller(
        "quota-grant",
        projects,
        for_object(projects, quota.RESOURCE_GRANTS, reconcile),
        watches=[
            Watch.each(projects, quota.RESOURCE_GRANTS),
            Watch(root, quota.RESOURCE_REGISTRATIONS, all_grants),
        ],
    )


def _registered(root: Fleet) -> Collection[str] | None:
    """The resource types that can be granted; None until the registrations are synced."""
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
        return f"spec.allowances: resource types not registered: {', '.join(unknown)}"
    return ""


def _active(fault: str) -> ConditionChange:
    return ConditionChange(
        quota.CONDITION_ACTIVE,
        conditions.FALSE if fault else conditions.TRUE,
        quota.REASON_VALIDATION_FAILED if fault else quota.REASON_GRANT_ACTIVE,
        fault or "Grant is active",
    )
