"""Services: what a provider offers, under a name that never changes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "CONDITION_PUBLISHED",
    "CONDITION_READY",
    "GROUP",
    "PHASES",
    "PHASE_DEPRECATED",
    "PHASE_DRAFT",
    "PHASE_PUBLISHED",
    "PHASE_RETIRED",
    "PUBLISHED_CONDITION",
    "REASON_PHASE_IS_DEPRECATED",
    "REASON_PHASE_IS_DRAFT",
    "REASON_PHASE_IS_PUBLISHED",
    "REASON_PHASE_IS_RETIRED",
    "REASON_SERVICE_READY",
    "SERVICES",
    "SERVICE_COMPUTE",
    "SERVICE_COMPUTE_NAME",
    "SERVICE_CONDITIONS",
    "ProducerProject",
    "Service",
    "ServiceOwner",
    "ServiceReference",
    "ServiceSpec",
    "ServiceStatus",
]

GROUP = "services.miloapis.com"

SERVICES = Resource(GROUP, "v1alpha1", "services", "Service", namespaced=False)

SERVICE_COMPUTE = "compute"
"""The Service object of compute: what references name."""
SERVICE_COMPUTE_NAME = "compute.datumapis.com"
"""Its ``spec.serviceName``: what its metrics and resource types begin with."""

PHASE_DRAFT = "Draft"
"""In preparation; no other object may refer to it."""
PHASE_PUBLISHED = "Published"
"""On offer; its name is settled."""
PHASE_DEPRECATED = "Deprecated"
"""Still served to its users, closed to new ones."""
PHASE_RETIRED = "Retired"
"""No longer served; kept for the record."""
PHASES = (PHASE_DRAFT, PHASE_PUBLISHED, PHASE_DEPRECATED, PHASE_RETIRED)
"""In the order in which they follow one another; never backwards."""

CONDITION_READY = "Ready"
"""It can be used: a Service is known, a configuration in force, an entitlement active."""
CONDITION_PUBLISHED = "Published"
"""It has left its draft."""
REASON_SERVICE_READY = "ServiceReady"
"""The catalogue knows the service."""
REASON_PHASE_IS_DRAFT = "PhaseIsDraft"
"""It is a draft."""
REASON_PHASE_IS_PUBLISHED = "PhaseIsPublished"
"""It is on offer."""
REASON_PHASE_IS_DEPRECATED = "PhaseIsDeprecated"
"""It is deprecated."""
REASON_PHASE_IS_RETIRED = "PhaseIsRetired"
"""It is retired."""

PUBLISHED_CONDITION = DeclaredCondition(
    CONDITION_PUBLISHED,
    true=(REASON_PHASE_IS_PUBLISHED, REASON_PHASE_IS_DEPRECATED, REASON_PHASE_IS_RETIRED),
    false=(REASON_PHASE_IS_DRAFT,),
)
"""The same for a Service and for its configuration."""

SERVICE_CONDITIONS = (
    DeclaredCondition(CONDITION_READY, true=(REASON_SERVICE_READY,)),
    PUBLISHED_CONDITION,
)


class ServiceReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[
        str, described("Name of the Service object.", required=True, minLength=1, maxLength=253)
    ] = ""


class ProducerProject(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[
        str, described("Name of the project.", required=True, minLength=1, maxLength=253)
    ] = ""


class ServiceOwner(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    producer_project_ref: Annotated[
        ProducerProject, described("Project that offers the service.", required=True)
    ] = ProducerProject()


class ServiceSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service_name: Annotated[
        str,
        described(
            "Name of the service everywhere, as in compute.datumapis.com.",
            required=True,
            minLength=1,
            maxLength=253,
            rules=[{"rule": "self == oldSelf", "message": "serviceName is immutable"}],
        ),
    ] = ""
    phase: Annotated[
        str,
        described(
            "Phase of its life cycle.", required=True, enum=list(PHASES), default=PHASE_DRAFT
        ),
    ] = PHASE_DRAFT
    display_name: Annotated[
        str, described("Name for people.", required=True, minLength=1, maxLength=128)
    ] = ""
    description: Annotated[str, described("What it does, for people.", maxLength=1024)] = ""
    owner: Annotated[ServiceOwner, described("Its owner.", required=True)] = ServiceOwner()


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    published_at: Annotated[datetime | None, described("When it was first published.")] = None
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0
    conditions: Annotated[
        Conditions, described("Ready and Published.", list_type="map", list_keys=["type"])
    ] = ()


class Service(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a provider offers."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()
