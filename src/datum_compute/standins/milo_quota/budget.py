"""Consumers, buckets, and the decisions on pending claims.

A bucket is one consumer's budget of one resource type. Each bucket decides on its own: a
claim that one bucket denies may be granted by another, and keeps that amount until it is
deleted. A decision is final. Pending requests are decided in the order of their claims' age, each
on what is left; one that does not fit does not hold back a smaller one behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from datum_compute.api import conditions
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.decisions.admission import name_rules

ClaimKey = tuple[str, str]
"""Namespace and name of a claim."""


@dataclass(frozen=True, slots=True, order=True)
class Consumer:
    """Matched by kind and name alone, as the real system does."""

    kind: str
    name: str

    @property
    def bucket_namespace(self) -> str:
        if self.kind == resourcemanager.ORGANIZATIONS.kind:
            return resourcemanager.organization_namespace(self.name)
        return quota.NAMESPACE_MILO_SYSTEM

    @property
    def labels(self) -> dict[str, str]:
        """Of its buckets. A name that no label can hold has none."""
        found = {quota.LABEL_CONSUMER_KIND: self.kind, quota.LABEL_CONSUMER_NAME: self.name}
        return {key: value for key, value in found.items() if name_rules.is_label_value(value)}

    def bucket_name(self, resource_type: str) -> str:
        digest = sha256(f"{resource_type}{self.kind}{self.name}".encode()).hexdigest()
        return f"bucket-{digest}"


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """One undecided request of a claim."""

    created: datetime
    claim: ClaimKey
    resource_type: str
    amount: int


@dataclass(frozen=True, slots=True)
class AllocationDecision:
    resource_type: str
    amount: int
    granted: bool
    message: str


def decide_allocations(
    pending: Iterable[PendingRequest], limits: Mapping[str, int], allocated: Mapping[str, int]
) -> dict[ClaimKey, tuple[AllocationDecision, ...]]:
    """Decide every pending request; a resource type without a grant has a limit of 0."""
    used = dict(allocated)
    decisions: dict[ClaimKey, tuple[AllocationDecision, ...]] = {}
    for request in sorted(pending, key=lambda one: (one.created, one.claim, one.resource_type)):
        kind = request.resource_type
        left = max(0, limits.get(kind, 0) - used.get(kind, 0))
        granted = request.amount <= left
        if granted:
            used[kind] = used.get(kind, 0) + request.amount
        message = (
            f"Allocated {request.amount} of {left} available"
            if granted
            else f"Insufficient quota: requested {request.amount}, available {left}"
        )
        decision = AllocationDecision(kind, request.amount, granted, message)
        decisions[request.claim] = (*decisions.get(request.claim, ()), decision)
    return decisions


def consumer_of(claim: quota.ResourceClaim, project: str) -> Consumer:
    """The consumer whose budget a claim takes from; by default the project itself."""
    reference = claim.spec.consumer_ref
    return Consumer(reference.kind, reference.name) if reference else Consumer("Project", project)


def granted_amounts(claim: quota.ResourceClaim) -> dict[str, int]:
    """What a claim holds, by resource type."""
    return {
        allocation.resource_type: allocation.allocated_amount
        for allocation in claim.status.allocations
        if allocation.status == quota.ALLOCATION_GRANTED
    }


def undecided_requests(claim: quota.ResourceClaim) -> list[quota.ClaimRequest]:
    decided = {
        allocation.resource_type
        for allocation in claim.status.allocations
        if allocation.status != quota.ALLOCATION_PENDING
    }
    return [one for one in claim.spec.requests if one.resource_type not in decided]


def limits_of(grants: Iterable[quota.ResourceGrant]) -> dict[str, int]:
    """The sum of all active grants, by resource type."""
    limits: dict[str, int] = {}
    for grant in grants:
        for resource_type, amount in amounts_of(grant).items():
            limits[resource_type] = bounded(limits.get(resource_type, 0) + amount)
    return limits


def amounts_of(grant: quota.ResourceGrant) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for allowance in grant.spec.allowances:
        amount = sum(bucket.amount for bucket in allowance.buckets)
        amounts[allowance.resource_type] = bounded(amounts.get(allowance.resource_type, 0) + amount)
    return amounts


def bounded(amount: int) -> int:
    """The nearest number that a status can have: one odd grant must not keep a bucket from being
    written."""
    return max(0, min(amount, 2**63 - 1))


def is_active(grant: quota.ResourceGrant) -> bool:
    return conditions.is_true(grant.status.conditions, quota.CONDITION_ACTIVE)
