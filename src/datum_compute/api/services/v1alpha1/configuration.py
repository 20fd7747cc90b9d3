"""ServiceConfigurations: what a service measures, what of it is limited, and how."""

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
    PHASE_DRAFT,
    PHASES,
    PUBLISHED_CONDITION,
    ServiceReference,
)
from datum_compute.api.structural_schema import described

__all__ = [
    "REASON_SERVICE_CONFIGURATION_READY",
    "REASON_SERVICE_REF_NOT_FOUND",
    "SERVICE_CONFIGURATIONS",
    "SERVICE_CONFIGURATION_CONDITIONS",
    "BillingDestination",
    "LimitConsumer",
    "MetricRule",
    "MetricRuleSelector",
    "MonitoredKind",
    "MonitoredLabel",
    "MonitoredResourceType",
    "QuotaLimit",
    "ServiceBilling",
    "ServiceConfiguration",
    "ServiceConfigurationSpec",
    "ServiceConfigurationStatus",
    "ServiceMetric",
    "ServiceQuota",
]

SERVICE_CONFIGURATIONS = Resource(
    GROUP, "v1alpha1", "serviceconfigurations", "ServiceConfiguration", namespaced=False
)

REASON_SERVICE_CONFIGURATION_READY = "ServiceConfigurationReady"
"""What it declares is in force."""
REASON_SERVICE_REF_NOT_FOUND = "ServiceRefNotFound"
"""The Service it refers to does not exist."""

SERVICE_CONFIGURATION_CONDITIONS = (
    DeclaredCondition(
        CONDITION_READY,
        true=(REASON_SERVICE_CONFIGURATION_READY,),
        false=(REASON_SERVICE_REF_NOT_FOUND,),
    ),
    PUBLISHED_CONDITION,
)

_NAME = {"minLength": 1, "maxLength": 253}
_KIND = {"minLength": 1, "maxLength": 63}
_Cost = Annotated[int, msgspec.Meta(extra_json_schema={"format": "int64"})]


class MonitoredKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    group: Annotated[str, described("API group of the kind.", required=True, **_NAME)] = ""
    kind: Annotated[str, described("The kind, in any version.", required=True, **_KIND)] = ""


class MonitoredLabel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Key of the label.", required=True, **_KIND)] = ""
    description: Annotated[str, described("Description for people.", maxLength=512)] = ""


class MonitoredResourceType(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: Annotated[
        str,
        described("Name of the type, beginning with the service's name.", required=True, **_NAME),
    ] = ""
    display_name: Annotated[str, described("Name for people.", maxLength=128)] = ""
    description: Annotated[str, described("What it is, for people.", maxLength=1024)] = ""
    gvk: Annotated[MonitoredKind, described("The kind it monitors.", required=True)] = (
        MonitoredKind()
    )
    labels: Annotated[
        tuple[MonitoredLabel, ...],
        described("Labels its usage may carry.", maxItems=64, list_type="map", list_keys=["name"]),
    ] = ()


class ServiceMetric(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[
        str,
        described("Name of the metric, beginning with the service's name.", required=True, **_NAME),
    ] = ""
    display_name: Annotated[str, described("Name for people.", maxLength=128)] = ""
    description: Annotated[str, described("What it measures, for people.", maxLength=1024)] = ""
    kind: Annotated[
        str,
        described(
            "Whether values are changes, levels or running totals.",
            required=True,
            enum=["Delta", "Gauge", "Cumulative"],
        ),
    ] = ""
    unit: Annotated[
        str,
        described(
            "Unit of its values, in the UCUM notation.", required=True, minLength=1, maxLength=64
        ),
    ] = ""
    dimensions: Annotated[
        tuple[str, ...],
        described("Attributes that distinguish its values.", maxItems=32, list_type="atomic"),
    ] = ()


class BillingDestination(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    monitored_resource_type: Annotated[
        str, described("Type the usage is charged to.", required=True, **_NAME)
    ] = ""
    metrics: Annotated[
        tuple[str, ...],
        described(
            "Names of the metrics that are charged.",
            required=True,
            minItems=1,
            maxItems=256,
            list_type="set",
        ),
    ] = ()


class ServiceBilling(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    consumer_destinations: Annotated[
        tuple[BillingDestination, ...],
        described(
            "Which usage is charged to what.",
            maxItems=64,
            list_type="map",
            list_keys=["monitoredResourceType"],
        ),
    ] = ()


class LimitConsumer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_group: Annotated[str, described("API group of the kind.", required=True)] = ""
    kind: Annotated[str, described("The kind.", required=True)] = ""


class QuotaLimit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the limit.", required=True, **_NAME)] = ""
    display_name: Annotated[str, described("Name for people.", maxLength=128)] = ""
    description: Annotated[str, described("What it limits, for people.", maxLength=1024)] = ""
    metric: Annotated[
        str, described("Name of the metric it limits: one of spec.metrics.", required=True)
    ] = ""
    consumer_type: Annotated[
        LimitConsumer, described("Kind of object that has the budget.", required=True)
    ] = LimitConsumer()
    unit: Annotated[
        str,
        described(
            "Unit of the limit, as in 1/{project}.", required=True, minLength=1, maxLength=64
        ),
    ] = ""
    default_limit: Annotated[
        int, described("What a new consumer gets.", required=True, format="int64", minimum=0)
    ] = 0
    max_limit: Annotated[
        int, described("The most a consumer gets; no bound at 0.", format="int64", minimum=0)
    ] = 0


class MetricRuleSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_group: Annotated[str, described("API group of the kind.", required=True, **_NAME)] = ""
    kind: Annotated[str, described("The kind, in any version.", required=True, **_KIND)] = ""


class MetricRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    selector: Annotated[
        MetricRuleSelector, described("Objects that cost something.", required=True)
    ] = MetricRuleSelector()
    metric_costs: Annotated[
        dict[str, _Cost],
        described(
            "What one of them costs, by name of a metric of spec.metrics.",
            required=True,
            minProperties=1,
        ),
    ] = {}


class ServiceQuota(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    limits: Annotated[
        tuple[QuotaLimit, ...],
        described("What is limited.", maxItems=128, list_type="map", list_keys=["name"]),
    ] = ()
    metric_rules: Annotated[
        tuple[MetricRule, ...],
        described("What objects cost.", maxItems=128, list_type="atomic"),
    ] = ()


class ServiceConfigurationSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    service_ref: Annotated[
        ServiceReference, described("The Service this is about.", required=True)
    ] = ServiceReference()
    phase: Annotated[
        str,
        described(
            "Phase of its life cycle.", required=True, enum=list(PHASES), default=PHASE_DRAFT
        ),
    ] = PHASE_DRAFT
    version: Annotated[str, described("Version of this document, for people.", maxLength=64)] = ""
    monitored_resource_types: Annotated[
        tuple[MonitoredResourceType, ...],
        described(
            "Kinds that usage is reported of.",
            maxItems=128,
            list_type="map",
            list_keys=["type"],
        ),
    ] = ()
    metrics: Annotated[
        tuple[ServiceMetric, ...],
        described("What is measured.", maxItems=256, list_type="map", list_keys=["name"]),
    ] = ()
    billing: Annotated[ServiceBilling | None, described("What is charged.")] = None
    quota: Annotated[ServiceQuota | None, described("What is limited, and what costs what.")] = None


class ServiceConfigurationStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    published_at: Annotated[datetime | None, described("When it was first published.")] = None
    service_name: Annotated[str, described("The service's name, once it was found.")] = ""
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0
    conditions: Annotated[
        Conditions, described("Ready and Published.", list_type="map", list_keys=["type"])
    ] = ()


class ServiceConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a service measures and limits."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceConfigurationSpec = ServiceConfigurationSpec()
    status: ServiceConfigurationStatus = ServiceConfigurationStatus()
