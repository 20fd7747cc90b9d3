"""Quota of an Instance: the size it claims, and what the decision on the claim means.

A claim belongs to an ordinal of a deployment at a size, not to one Instance: a roll keeps
it. It is created once and never changed. The decision becomes the condition QuotaGranted;
once that is True it stays True, whatever happens to the claim afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from datum_compute.api import conditions, quantities
from datum_compute.api.compute import names, quota_resources
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Condition, ConditionState
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager

RESOURCE_INSTANCES = quota_resources.INSTANCES.resource_type
RESOURCE_VCPUS = quota_resources.VCPUS.resource_type
RESOURCE_MEMORY = quota_resources.MEMORY.resource_type


@dataclass(frozen=True, slots=True)
class Size:
    """The resources of one Instance. Without numbers only the Instance itself is counted."""

    millicores: int | None = None
    mebibytes: int | None = None

    def requests(self) -> dict[str, int]:
        """Resource type -> amount in its base unit."""
        requests = {RESOURCE_INSTANCES: 1}
        if self.millicores is not None and self.mebibytes is not None:
            # Milo rejects a request for 0.
            sized = {RESOURCE_VCPUS: self.millicores, RESOURCE_MEMORY: self.mebibytes}
            requests |= {resource: amount for resource, amount in sized.items() if amount > 0}
        return requests


def decide_size(spec: compute.InstanceSpec) -> Size:
    """The limits of all containers where each has both; else what the Instance requests;
    else what its type has; else unknown."""
    sandbox = spec.runtime.sandbox
    containers = sandbox.containers if sandbox else ()
    limits = [_size(each.resources.limits if each.resources else {}) for each in containers]
    complete = [size for size in limits if size is not None]
    if complete and len(complete) == len(limits):
        return Size(
            sum(size.millicores or 0 for size in complete),
            sum(size.mebibytes or 0 for size in complete),
        )
    requested = _size(spec.runtime.resources.requests)
    if requested is not None:
        return requested
    known = compute.INSTANCE_TYPES.get(spec.runtime.resources.instance_type)
    return Size(known.millicores, known.mebibytes) if known else Size()


def _size(amounts: dict[str, int | str]) -> Size | None:
    """Both numbers or neither: a size with only one of them is not used."""
    try:
        return Size(quantities.millis(amounts["cpu"]), quantities.mebibytes(amounts["memory"]))
    except (KeyError, quantities.QuantityError):
        return None


def build_claim(
    *,
    instance_name: str,
    instance_namespace: str,
    claim_namespace: str,
    project: str,
    source_cluster: str,
    size: Size,
) -> dict[str, Any]:
    """The ResourceClaim for an Instance, to be created in its project's plane."""
    reference = {
        "apiGroup": resourcemanager.PROJECTS.group,
        "kind": resourcemanager.PROJECTS.kind,
        "name": project,
    }
    return {
        "apiVersion": quota.RESOURCE_CLAIMS.api_version,
        "kind": quota.RESOURCE_CLAIMS.kind,
        "metadata": {
            "name": names.claim_name(instance_name),
            "namespace": claim_namespace,
            "labels": {
                compute.LABEL_SOURCE_CLUSTER: source_cluster,
                compute.LABEL_INSTANCE_NAMESPACE: instance_namespace,
            },
        },
        "spec": {
            "consumerRef": reference,
            "resourceRef": dict(reference),
            "requests": [
                {"resourceType": resource, "amount": amount}
                for resource, amount in size.requests().items()
            ],
        },
    }


def claim_fits(claim: quota.ResourceClaim, size: Size) -> bool:
    """Whether a claim is for this size, so that a replacement can take it over."""
    claimed = {request.resource_type: request.amount for request in claim.spec.requests}
    return claimed == size.requests()


def keeps_claim(*, ordinal: int | None, desired: int, size: Size, wanted: Size) -> bool:
    """Whether the claim of a deleted Instance is left for its replacement."""
    return ordinal is not None and ordinal < desired and size == wanted


DISABLED = ConditionState(
    conditions.TRUE, compute.REASON_QUOTA_DISABLED, "Quota is not enforced in this cell"
)
PENDING = ConditionState(
    conditions.UNKNOWN, compute.REASON_PENDING_EVALUATION, compute.WAITING_FOR_QUOTA
)

_DENIED = (compute.REASON_QUOTA_EXCEEDED, compute.REASON_VALIDATION_FAILED)


def decide_quota(claim: quota.ResourceClaim | None, previous: Condition | None) -> ConditionState:
    """The QuotaGranted that follows from a claim, or from none, and from ``previous``."""
    if previous is not None and previous.status == conditions.TRUE:
        return ConditionState.of(previous)
    granted = conditions.find(claim.status.conditions, quota.CONDITION_GRANTED) if claim else None
    if granted is None or granted.status == conditions.UNKNOWN:
        # After a denied claim is released, the denial counts until a new claim is evaluated.
        denied = previous is not None and is_denied(previous)
        return ConditionState.of(previous) if previous is not None and denied else PENDING
    if granted.status == conditions.TRUE:
        return ConditionState(conditions.TRUE, compute.REASON_QUOTA_AVAILABLE, granted.message)
    if granted.reason == quota.REASON_PENDING_EVALUATION:
        if previous is not None and is_denied(previous):
            return ConditionState.of(previous)
        return ConditionState(conditions.UNKNOWN, compute.REASON_QUOTA_NO_BUDGET, granted.message)
    if granted.reason == quota.REASON_VALIDATION_FAILED:
        return ConditionState(conditions.FALSE, compute.REASON_VALIDATION_FAILED, granted.message)
    return ConditionState(conditions.FALSE, compute.REASON_QUOTA_EXCEEDED, granted.message)


def is_denied(granted: ConditionState | Condition) -> bool:
    """Whether the claim was denied, as opposed to not evaluated."""
    return granted.status == conditions.FALSE and granted.reason in _DENIED


def create_failure_reason(status_code: int | None, *, namespace: str) -> str:
    """The reason why a claim could not be created; no status code means that no answer came."""
    if status_code == 404:
        return (
            compute.REASON_QUOTA_NAMESPACE_NOT_FOUND
            if namespace
            else compute.REASON_QUOTA_PROJECT_NOT_FOUND
        )
    if status_code in (403, 422):
        return compute.REASON_QUOTA_MISCONFIGURED
    return compute.REASON_QUOTA_BACKEND_UNAVAILABLE


def pending_requeue(created: datetime | None, now: datetime) -> float:
    """Seconds until a pending Instance is reconciled again without any event.

    Counted from creation: the transition time of a default condition is 1970.
    """
    age = (now - created).total_seconds() if created else 0.0
    if age < 60:
        return 1.0
    if age < 300:
        return 15.0
    if age < 600:
        return 60.0
    return 300.0


def has_room_for_denied(
    claim: quota.ResourceClaim, buckets: Sequence[quota.AllowanceBucket], *, project: str
) -> bool:
    """Whether the buckets have room for what this claim was denied. What other buckets granted
    it still holds, so that needs no room again."""
    held = {
        each.resource_type
        for each in claim.status.allocations
        if each.status == quota.ALLOCATION_GRANTED
    }
    available = available_in(buckets, project)
    return all(
        available.get(each.resource_type, 0) >= each.amount
        for each in claim.spec.requests
        if each.resource_type not in held
    )


def is_claim_invalid(claim: quota.ResourceClaim) -> bool:
    """Whether a claim was refused as malformed, whatever the budget."""
    granted = conditions.find(claim.status.conditions, quota.CONDITION_GRANTED)
    return granted is not None and granted.reason == quota.REASON_VALIDATION_FAILED


def has_room(size: Size, buckets: Sequence[quota.AllowanceBucket], *, project: str) -> bool:
    """Whether every bucket this size needs has room for it."""
    available = available_in(buckets, project)
    return all(available.get(kind, 0) >= amount for kind, amount in size.requests().items())


Budget = tuple[tuple[object, ...], ...]


def budget_for(size: Size, buckets: Sequence[quota.AllowanceBucket], *, project: str) -> Budget:
    """The budget of a claim of this size, for comparison: the limits and the grants that feed
    them, without what other claims use."""
    wanted = size.requests()
    return tuple(
        sorted(
            (
                bucket.spec.resource_type,
                bucket.metadata.uid,
                bucket.status.limit,
                *(
                    (ref.name, ref.last_observed_generation, ref.amount)
                    for ref in bucket.status.contributing_grant_refs
                ),
            )
            for bucket in buckets
            if bucket.spec.resource_type in wanted and _is_of(bucket, project)
        )
    )


def _is_of(bucket: quota.AllowanceBucket, project: str) -> bool:
    consumer = bucket.spec.consumer_ref
    return (consumer.kind, consumer.name) == (resourcemanager.PROJECTS.kind, project)


def available_in(buckets: Sequence[quota.AllowanceBucket], project: str) -> dict[str, int]:
    """Resource type -> what a project's buckets have left of it."""
    return {
        bucket.spec.resource_type: bucket.status.available
        for bucket in buckets
        if _is_of(bucket, project)
    }
