"""ResourceRegistrations of the root plane: which resource types exist, and their claim rules.

A registration names a resource type, the kind of consumer it is counted against, and the kinds
that may claim it. The first one for a resource type counts; a second one reports the first.
Registrations matter when a claim is created and when a grant becomes active; later changes
affect neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from datum_compute.api import conditions
from datum_compute.api.conditions import EPOCH, FALSE, TRUE
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import readable
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.watches.mapping import all_in_fleet
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions

KindName = tuple[str, str]
"""API group and kind."""

ACTIVE = "Grants and claims of this resource type can be created"


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """The rule of a registration for claims of its resource type."""

    consumer: KindName
    claimants: tuple[KindName, ...]


ClaimRules = Mapping[str, ClaimRule]
"""By resource type."""


def rules_of(registrations: Iterable[Object]) -> dict[str, ClaimRule]:
    """The rules of all registrations that count, those without a condition included."""
    rules: dict[str, ClaimRule] = {}
    for obj in sorted(readable(registrations, quota.ResourceRegistration), key=_age):
        view = obj.view(quota.ResourceRegistration)
        active = conditions.find(view.status.conditions, quota.CONDITION_ACTIVE)
        if obj.metadata.deleting or (active is not None and active.status == FALSE):
            continue
        if _repeated_claimants(view):
            continue
        consumer = view.spec.consumer_type
        claimants = tuple((one.api_group, one.kind) for one in view.spec.claiming_resources)
        rule = ClaimRule((consumer.api_group, consumer.kind), claimants)
        rules.setdefault(view.spec.resource_type, rule)
    return rules


def validate_claim(claim: quota.ResourceClaim, rules: ClaimRules) -> list[str]:
    """What is wrong with a new claim; empty where it is valid."""
    faults = []
    for number, request in enumerate(claim.spec.requests):
        path = f"spec.requests[{number}]"
        if request.amount <= 0:
            faults.append(f"{path}.amount: {request.amount}: must be greater than 0")
        rule = rules.get(request.resource_type)
        if rule is None:
            known = ", ".join(sorted(rules)) or "none"
            name = request.resource_type
            faults.append(f'{path}.resourceType: "{name}" is not registered; registered: {known}')
        else:
            faults += [f"{path}.resourceType: {fault}" for fault in _mismatches(claim, rule)]
    reference = claim.spec.resource_ref
    for field, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            faults.append(f"spec.resourceRef.{field}: is required")
    return faults


def _mismatches(claim: quota.ResourceClaim, rule: ClaimRule) -> Iterable[str]:
    claimant = claim.spec.resource_ref
    if claimant.kind and (claimant.api_group, claimant.kind) not in rule.claimants:
        allowed = ", ".join(map(_text, rule.claimants))
        found = _text((claimant.api_group, claimant.kind))
        yield f"{found} (spec.resourceRef) may not claim it; allowed: {allowed}"
    consumer = claim.spec.consumer_ref
    if consumer is not None and (consumer.api_group, consumer.kind) != rule.consumer:
        found = _text((consumer.api_group, consumer.kind))
        yield f"{found} (spec.consumerRef) has no budget of it; allowed: {_text(rule.consumer)}"


def _text(kind: KindName) -> str:
    return "/".join(filter(None, kind))


def registration_controller(root: Fleet, env: Environment) -> Controller:
    """Reports of each registration whether it counts."""

    registrations = quota.RESOURCE_REGISTRATIONS

    async def reconcile(cluster: Cluster, obj: Object) -> None:
        first = _first(cluster.cache(registrations).list(), _resource_type(obj))
        await write_conditions(
            cluster.client,
            registrations,
            obj,
            _active(obj, first),
            now=env.now(),
            fields={"observedGeneration": obj.metadata.generation},
        )

    of_the_same_type = all_in_fleet(
        root,
        registrations,
        where=lambda other, changed: _resource_type(other) == _resource_type(changed),
    )
    return Controller(
        "quota-registration",
        root,
        for_object(root, registrations, reconcile),
        watches=[Watch(root, registrations, of_the_same_type)],
    )


def _active(obj: Object, first: str) -> ConditionChange:
    faults = _repeated_claimants(obj.view(quota.ResourceRegistration))
    if first not in ("", obj.name):
        faults.append(
            f'spec.resourceType: "{_resource_type(obj)}" is registered by "{first}" already'
        )
    return ConditionChange(
        quota.CONDITION_ACTIVE,
        FALSE if faults else TRUE,
        quota.REASON_VALIDATION_FAILED if faults else quota.REASON_REGISTRATION_ACTIVE,
        "; ".join(faults) or ACTIVE,
    )


def _repeated_claimants(registration: quota.ResourceRegistration) -> list[str]:
    claimants = [(one.api_group, one.kind) for one in registration.spec.claiming_resources]
    return [
        f'spec.claimingResources[{number}]: Duplicate value: "{_text(claimant)}"'
        for number, claimant in enumerate(claimants)
        if claimant in claimants[:number]
    ]


def _first(registrations: Iterable[Object], resource_type: str) -> str:
    """The name of the registration that counts for a resource type, empty for none."""
    valid = [
        one
        for one in readable(registrations, quota.ResourceRegistration)
        if _resource_type(one) == resource_type
        and not one.metadata.deleting
        and not _repeated_claimants(one.view(quota.ResourceRegistration))
    ]
    return min(valid, key=_age).name if valid else ""


def _resource_type(registration: Object) -> str:
    return registration.view(quota.ResourceRegistration).spec.resource_type


def _age(registration: Object) -> tuple[object, str]:
    return registration.metadata.creation_timestamp or EPOCH, registration.name
