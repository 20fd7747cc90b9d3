"""What can be counted, what a consumer was granted, and how much of it is left."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.planes import MILO_SYSTEM_NAMESPACE
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "ALLOWANCE_BUCKETS",
    "CONDITION_ACTIVE",
    "GROUP",
    "LABEL_CONSUMER_KIND",
    "LABEL_CONSUMER_NAME",
    "NAMESPACE_MILO_SYSTEM",
    "REASON_GRANT_ACTIVE",
    "REASON_GRANT_PENDING",
    "REASON_REGISTRATION_ACTIVE",
    "REASON_REGISTRATION_PENDING",
    "REASON_VALIDATION_FAILED",
    "RESOURCE_GRANTS",
    "RESOURCE_GRANT_CONDITIONS",
    "RESOURCE_REGISTRATIONS",
    "RESOURCE_REGISTRATION_CONDITIONS",
    "Allowance",
    "AllowanceAmount",
    "AllowanceBucket",
    "AllowanceBucketSpec",
    "AllowanceBucketStatus",
    "ConsumerReference",
    "ConsumerType",
    "GrantReference",
    "ResourceGrant",
    "ResourceGrantSpec",
    "ResourceGrantStatus",
    "ResourceRegistration",
    "ResourceRegistrationSpec",
    "ResourceRegistrationStatus",
]

GROUP = "quota.miloapis.com"

RESOURCE_REGISTRATIONS = Resource(
    GROUP, "v1alpha1", "resourceregistrations", "ResourceRegistration", namespaced=False
)
RESOURCE_GRANTS = Resource(GROUP, "v1alpha1", "resourcegrants", "ResourceGrant")
ALLOWANCE_BUCKETS = Resource(GROUP, "v1alpha1", "allowancebuckets", "AllowanceBucket")

LABEL_CONSUMER_KIND = "quota.miloapis.com/consumer-kind"
"""The kind of a bucket's consumer."""
LABEL_CONSUMER_NAME = "quota.miloapis.com/consumer-name"
"""The name of a bucket's consumer."""

NAMESPACE_MILO_SYSTEM = MILO_SYSTEM_NAMESPACE
"""The namespace of a project's grants and buckets."""

CONDITION_ACTIVE = "Active"
"""It counts: claims may name the registration, the grant feeds its buckets."""
REASON_REGISTRATION_ACTIVE = "RegistrationActive"
"""What it names can be granted and claimed."""
REASON_REGISTRATION_PENDING = "RegistrationPending"
"""The registration is not reconciled yet."""
REASON_GRANT_ACTIVE = "GrantActive"
"""Its amounts are part of the consumer's budget."""
REASON_GRANT_PENDING = "GrantPending"
"""The grant is not reconciled yet."""
REASON_VALIDATION_FAILED = "ValidationFailed"
"""It is invalid as written; the message has the cause."""

RESOURCE_REGISTRATION_CONDITIONS = (
    DeclaredCondition(
        CONDITION_ACTIVE,
        true=(REASON_REGISTRATION_ACTIVE,),
        false=(REASON_VALIDATION_FAILED, REASON_REGISTRATION_PENDING),
    ),
)
RESOURCE_GRANT_CONDITIONS = (
    DeclaredCondition(
        CONDITION_ACTIVE,
        true=(REASON_GRANT_ACTIVE,),
        false=(REASON_VALIDATION_FAILED, REASON_GRANT_PENDING),
    ),
)

_AMOUNT = {"format": "int64", "minimum": 0}


class ConsumerType(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_group: Annotated[str, described("API group of the kind.")] = ""
    kind: Annotated[str, described("The kind.", required=True)] = ""


class ResourceRegistrationSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    consumer_type: Annotated[
        ConsumerType,
        described(
            "Kind of object that receives grants.",
            required=True,
            rules=[{"rule": "self == oldSelf", "message": "consumerType is immutable"}],
        ),
    ] = ConsumerType()
    type: Annotated[
        str,
        described(
            "Whether objects are counted, amounts allocated, or a feature is switched on.",
            required=True,
            enum=["Entity", "Allocation", "Feature"],
            rules=[{"rule": "self == oldSelf", "message": "type is immutable"}],
        ),
    ] = ""
    resource_type: Annotated[
        str,
        described(
            "Name of what is counted.",
            required=True,
            minLength=1,
            maxLength=253,
            rules=[{"rule": "self == oldSelf", "message": "resourceType is immutable"}],
        ),
    ] = ""
    description: Annotated[str, described("What it is, for people.")] = ""
    base_unit: Annotated[str, described("Unit amounts are counted in.", required=True)] = ""
    display_unit: Annotated[str, described("Unit of displayed amounts.", required=True)] = ""
    unit_conversion_factor: Annotated[
        int, described("Base units in one display unit.", required=True, minimum=1, format="int64")
    ] = 1
    claiming_resources: Annotated[
        tuple[ConsumerType, ...],
        described(
            "Kinds that may claim it.", required=True, minItems=1, maxItems=20, list_type="atomic"
        ),
    ] = ()


class ResourceRegistrationStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0
    conditions: Annotated[
        Conditions, described("Active.", list_type="map", list_keys=["type"])
    ] = ()


class ResourceRegistration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that can be counted."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceRegistrationSpec = ResourceRegistrationSpec()
    status: ResourceRegistrationStatus = ResourceRegistrationStatus()


class ConsumerReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_group: Annotated[str, described("API group of the object.")] = ""
    kind: Annotated[str, described("Kind of the object.", required=True)] = ""
    name: Annotated[str, described("Name of the object.", required=True)] = ""
    namespace: Annotated[str, described("Namespace of the object, if it has one.")] = ""


class AllowanceAmount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    amount: Annotated[int, described("Amount in base units.", required=True, **_AMOUNT)] = 0


class Allowance(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource_type: Annotated[str, described("What is granted.", required=True)] = ""
    buckets: Annotated[
        tuple[AllowanceAmount, ...],
        described("Amounts, which add up.", required=True, minItems=1, list_type="atomic"),
    ] = ()


class ResourceGrantSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    consumer_ref: Annotated[ConsumerReference, described("The consumer.", required=True)] = (
        ConsumerReference()
    )
    allowances: Annotated[
        tuple[Allowance, ...],
        described("What is granted.", required=True, minItems=1, maxItems=20, list_type="atomic"),
    ] = ()


class ResourceGrantStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0
    conditions: Annotated[
        Conditions, described("Active.", list_type="map", list_keys=["type"])
    ] = ()


class ResourceGrant(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Amounts a consumer may use."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceGrantSpec = ResourceGrantSpec()
    status: ResourceGrantStatus = ResourceGrantStatus()


class AllowanceBucketSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    consumer_ref: Annotated[ConsumerReference, described("Whose amounts.", required=True)] = (
        ConsumerReference()
    )
    resource_type: Annotated[str, described("What is counted.", required=True)] = ""


class GrantReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the grant.", required=True)] = ""
    last_observed_generation: Annotated[
        int, described("Generation of the grant that was counted.", format="int64")
    ] = 0
    amount: Annotated[int, described("What it contributes.", **_AMOUNT)] = 0


class AllowanceBucketStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    limit: Annotated[int, described("Sum of the grants.", **_AMOUNT)] = 0
    allocated: Annotated[int, described("Sum of the granted claims.", **_AMOUNT)] = 0
    available: Annotated[int, described("What is left.", **_AMOUNT)] = 0
    claim_count: Annotated[int, described("Claims that use it.", minimum=0)] = 0
    grant_count: Annotated[int, described("Grants that feed it.", minimum=0)] = 0
    contributing_grant_refs: Annotated[
        tuple[GrantReference, ...],
        described("The grants that feed it.", list_type="map", list_keys=["name"]),
    ] = ()
    last_reconciliation: Annotated[datetime | None, described("When it was last added up.")] = None
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0


class AllowanceBucket(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a consumer has of one resource: granted, used, left."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AllowanceBucketSpec = AllowanceBucketSpec()
    status: AllowanceBucketStatus = AllowanceBucketStatus()
