"""ServiceEntitlements: a project's request to use a service, and the provider's decision."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.services.v1alpha1.catalogue import (
    CONDITION_READY,
    GROUP,
    ServiceReference,
)
from datum_compute.api.services.v1alpha1.configuration import MonitoredKind
from datum_compute.api.structural_schema import described

__all__ = [
    "CONDITION_PROVISIONED",
    "CONDITION_SUSPENDED",
    "ENTITLEMENT_COMPUTE",
    "ORIGIN_DEPENDENCY",
    "ORIGIN_DIRECT",
    "PHASE_ACTIVE",
    "PHASE_PENDING_APPROVAL",
    "PHASE_REJECTED",
    "REASON_ENTITLEMENT_ACTIVE",
    "REASON_ENTITLEMENT_NOT_ACTIVE",
    "REASON_ENTITLEMENT_PENDING_APPROVAL",
    "REASON_ENTITLEMENT_REJECTED",
    "REASON_NOTHING_TO_PROVISION",
    "REASON_NOT_PROVISIONED",
    "REASON_PARTIALLY_PROVISIONED",
    "REASON_PROJECT_ACTIVE",
    "REASON_PROJECT_SUSPENDED",
    "REASON_PROVISIONED",
    "REASON_SERVICE_NOT_PUBLISHED",
    "SERVICE_ENTITLEMENTS",
    "SERVICE_ENTITLEMENT_CONDITIONS",
    "ProvisionedResource",
    "ServiceEntitlement",
    "ServiceEntitlementSpec",
    "ServiceEntitlementStatus",
]

SERVICE_ENTITLEMENTS = Resource(
    GROUP, "v1alpha1", "serviceentitlements", "ServiceEntitlement", namespaced=False
)

ENTITLEMENT_COMPUTE = "compute"
"""Name of a project's entitlement to compute."""

PHASE_PENDING_APPROVAL = "PendingApproval"
"""The provider has not answered."""
PHASE_ACTIVE = "Active"
"""The project may use the service."""
PHASE_REJECTED = "Rejected"
"""The provider has denied it."""

ORIGIN_DIRECT = "Direct"
"""A user of the project requested it."""
ORIGIN_DEPENDENCY = "Dependency"
"""Another entitlement needs it."""

REASON_ENTITLEMENT_ACTIVE = "EntitlementActive"
"""The project may use the service."""
REASON_ENTITLEMENT_PENDING_APPROVAL = "EntitlementPendingApproval"
"""The provider has not answered."""
REASON_ENTITLEMENT_REJECTED = "EntitlementRejected"
"""The provider has denied it."""
REASON_SERVICE_NOT_PUBLISHED = "ServiceNotPublished"
"""The service is not published; no provider has denied it."""

CONDITION_SUSPENDED = "Suspended"
"""The project is suspended, whatever the provider's answer."""
REASON_PROJECT_SUSPENDED = "ProjectSuspended"
"""The project is suspended."""
REASON_PROJECT_ACTIVE = "ProjectActive"
"""The project is not suspended."""

CONDITION_PROVISIONED = "Provisioned"
"""What the service puts into a project has arrived."""
REASON_PROVISIONED = "Provisioned"
"""All of it has arrived."""
REASON_NOTHING_TO_PROVISION = "NothingToProvision"
"""The service puts nothing into a project."""
REASON_PARTIALLY_PROVISIONED = "PartiallyProvisioned"
"""Some of it could not be delivered."""
REASON_NOT_PROVISIONED = "NotProvisioned"
"""None of it could be delivered."""
REASON_ENTITLEMENT_NOT_ACTIVE = "EntitlementNotActive"
"""Nothing is delivered before the entitlement is active."""

SERVICE_ENTITLEMENT_CONDITIONS = (
    DeclaredCondition(
        CONDITION_READY,
        true=(REASON_ENTITLEMENT_ACTIVE,),
        false=(
            REASON_ENTITLEMENT_PENDING_APPROVAL,
            REASON_ENTITLEMENT_REJECTED,
            REASON_SERVICE_NOT_PUBLISHED,
        ),
    ),
    DeclaredCondition(
        CONDITION_SUSPENDED, true=(REASON_PROJECT_SUSPENDED,), false=(REASON_PROJECT_ACTIVE,)
    ),
    DeclaredCondition(
        CONDITION_PROVISIONED,
        true=(REASON_PROVISIONED, REASON_NOTHING_TO_PROVISION),
        false=(
            REASON_PARTIALLY_PROVISIONED,
            REASON_NOT_PROVISIONED,
            REASON_ENTITLEMENT_NOT_ACTIVE,
        ),
    ),
)


class ServiceEntitlementSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service_ref: Annotated[
        ServiceReference, described("The service the project wants to use.", required=True)
    ] = ServiceReference()
    request_message: Annotated[
        str, described("What the provider should know when it decides.", maxLength=1024)
    ] = ""


class ProvisionedResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("What the service calls it.", required=True)] = ""
    kind: Annotated[MonitoredKind | None, described("Its kind.")] = None
    state: Annotated[
        str,
        described(
            "Whether it has arrived, may yet, or cannot.",
            required=True,
            enum=["Installed", "Failed", "Unprovisionable"],
        ),
    ] = ""
    object_count: Annotated[int, described("How many objects it came to.")] = 0
    reason: Annotated[str, described("Machine-readable cause, when it has not arrived.")] = ""
    message: Annotated[str, described("The cause for people.", maxLength=1024)] = ""
    authorization_established: Annotated[
        bool, described("Whether the project itself may use what it points at.")
    ] = False


class ServiceEntitlementStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    phase: Annotated[
        str,
        described(
            "The provider's answer.",
            enum=[PHASE_PENDING_APPROVAL, PHASE_ACTIVE, PHASE_REJECTED],
        ),
    ] = ""
    origin: Annotated[
        str, described("How it came about.", enum=[ORIGIN_DIRECT, ORIGIN_DEPENDENCY])
    ] = ""
    dependency_of: Annotated[
        str, described("Name of the entitlement that needs it, for a dependency.")
    ] = ""
    entitled_at: Annotated[datetime | None, described("When it became active.")] = None
    service_name: Annotated[str, described("The service's name, once it was found.")] = ""
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0
    provisioned_resources: Annotated[
        tuple[ProvisionedResource, ...],
        described(
            "What the service puts into the project.",
            maxItems=16,
            list_type="map",
            list_keys=["name"],
        ),
    ] = ()
    last_provisioning_evaluation: Annotated[
        datetime | None, described("When delivery was last checked.")
    ] = None
    conditions: Annotated[
        Conditions,
        described("Ready, Suspended and Provisioned.", list_type="map", list_keys=["type"]),
    ] = ()


class ServiceEntitlement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A project's request to use a service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceEntitlementSpec = ServiceEntitlementSpec()
    status: ServiceEntitlementStatus = ServiceEntitlementStatus()
