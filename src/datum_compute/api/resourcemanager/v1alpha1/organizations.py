"""Organizations: the owners of projects."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "CONDITION_READY",
    "GROUP",
    "ORGANIZATIONS",
    "ORGANIZATION_CONDITIONS",
    "REASON_READY",
    "REASON_UNKNOWN",
    "Organization",
    "OrganizationContact",
    "OrganizationSpec",
    "OrganizationStatus",
    "organization_namespace",
]

GROUP = "resourcemanager.miloapis.com"

ORGANIZATIONS = Resource(GROUP, "v1alpha1", "organizations", "Organization", namespaced=False)

CONDITION_READY = "Ready"
"""It can be used: an Organization may own projects, a Project's control plane answers."""
REASON_READY = "Ready"
"""It can be used."""
REASON_UNKNOWN = "Unknown"
"""No controller has reconciled it yet."""

ORGANIZATION_CONDITIONS = (
    DeclaredCondition(CONDITION_READY, true=(REASON_READY,), unknown=(REASON_UNKNOWN,)),
)


def organization_namespace(name: str) -> str:
    """Where an Organization has its objects, such as its quota."""
    return f"organization-{name}"


class OrganizationContact(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    email: Annotated[
        str, described("Address to write to.", required=True, minLength=1, maxLength=256)
    ] = ""
    name: Annotated[
        str, described("Contact person.", required=True, minLength=1, maxLength=256)
    ] = ""
    business_name: Annotated[str, described("Legal name of the organization.", maxLength=256)] = ""


class OrganizationSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: Annotated[
        str,
        described(
            "Whether it is one person or several.",
            enum=["Personal", "Standard"],
            rules=[{"rule": "self == oldSelf", "message": "type is immutable"}],
        ),
    ] = ""
    contact_info: Annotated[
        OrganizationContact | None, described("Contact of the organization.")
    ] = None


class OrganizationStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0
    conditions: Annotated[Conditions, described("Ready.", list_type="map", list_keys=["type"])] = ()


class Organization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The owner of projects."""

    metadata: ObjectMeta = ObjectMeta()
    spec: OrganizationSpec = OrganizationSpec()
    status: OrganizationStatus = OrganizationStatus()
