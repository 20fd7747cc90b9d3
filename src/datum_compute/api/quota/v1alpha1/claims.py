"""Claims: a request for some of what was granted, and the decision.

A decision is final. More budget does not revive a denied claim; a new claim is needed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from datum_compute.api import conditions as conditions_
from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Condition, Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.quota.v1alpha1.allowances import (
    GROUP,
    REASON_VALIDATION_FAILED,
    ConsumerReference,
)
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "ALLOCATION_DENIED",
    "ALLOCATION_GRANTED",
    "ALLOCATION_PENDING",
    "CONDITION_GRANTED",
    "REASON_PENDING_EVALUATION",
    "REASON_QUOTA_AVAILABLE",
    "REASON_QUOTA_EXCEEDED",
    "RESOURCE_CLAIMS",
    "RESOURCE_CLAIM_CONDITIONS",
    "ClaimRequest",
    "RequestAllocation",
    "ResourceClaim",
    "ResourceClaimSpec",
    "ResourceClaimStatus",
    "default_claim_status",
]

RESOURCE_CLAIMS = Resource(GROUP, "v1alpha1", "resourceclaims", "ResourceClaim")

CONDITION_GRANTED = "Granted"
"""Every request of the claim was allowed."""
REASON_QUOTA_AVAILABLE = "QuotaAvailable"
"""The budget covers the claim, and is smaller by it."""
REASON_QUOTA_EXCEEDED = "QuotaExceeded"
"""The budget does not cover some request. This is final."""
REASON_PENDING_EVALUATION = "PendingEvaluation"
"""Some request has no answer."""

RESOURCE_CLAIM_CONDITIONS = (
    DeclaredCondition(
        CONDITION_GRANTED,
        true=(REASON_QUOTA_AVAILABLE,),
        false=(REASON_QUOTA_EXCEEDED, REASON_VALIDATION_FAILED, REASON_PENDING_EVALUATION),
    ),
)

ALLOCATION_GRANTED = "Granted"
"""The amount is set aside."""
ALLOCATION_DENIED = "Denied"
"""The amount was not there."""
ALLOCATION_PENDING = "Pending"
"""The bucket has not answered."""


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_type: Annotated[str, described("What is claimed.", required=True)] = ""
    amount: Annotated[
        int, described("How much, in base units.", required=True, format="int64", minimum=0)
    ] = 0


class ResourceClaimSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    consumer_ref: Annotated[
        ConsumerReference | None, described("Whose budget it is taken from.")
    ] = None
    requests: Annotated[
        tuple[ClaimRequest, ...],
        described(
            "What is claimed.",
            required=True,
            minItems=1,
            maxItems=20,
            list_type="map",
            list_keys=["resourceType"],
        ),
    ] = ()
    resource_ref: Annotated[
        ConsumerReference, described("The object that claims.", required=True)
    ] = ConsumerReference()


class RequestAllocation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_type: Annotated[str, described("What was claimed.", required=True)] = ""
    status: Annotated[
        str,
        described("The answer.", required=True, enum=["Granted", "Denied", "Pending"]),
    ] = ALLOCATION_PENDING
    reason: Annotated[str, described("Machine-readable cause.")] = ""
    message: Annotated[str, described("The cause for people.")] = ""
    allocated_amount: Annotated[
        int, described("How much was set aside.", format="int64", minimum=0)
    ] = 0
    allocating_bucket: Annotated[str, described("The bucket that answered.")] = ""
    last_transition_time: Annotated[
        datetime | None, described("When the answer last changed.", required=True)
    ] = None


class ResourceClaimStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    allocations: Annotated[
        tuple[RequestAllocation, ...],
        described("The answer to each request.", list_type="map", list_keys=["resourceType"]),
    ] = ()
    conditions: Annotated[
        Conditions, described("Granted.", list_type="map", list_keys=["type"])
    ] = ()
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0


class ResourceClaim(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A request for some of what was granted."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


def default_claim_status() -> dict[str, Any]:
    """What the server puts into the status of a new claim: not granted, since 1970."""
    waiting = Condition(
        type=CONDITION_GRANTED,
        status=conditions_.FALSE,
        reason=REASON_PENDING_EVALUATION,
        message="Awaiting capacity evaluation",
    )
    return {"conditions": conditions_.to_wire([waiting])}
