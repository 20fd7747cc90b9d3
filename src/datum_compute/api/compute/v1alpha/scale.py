"""How many Instances a placement wants in each city."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.compute import constants
from datum_compute.api.structural_schema import Quantity, described

__all__ = [
    "Metric",
    "MetricTarget",
    "ResourceMetric",
    "ScaleSettings",
]


class MetricTarget(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    value: Annotated[Quantity | None, described("Total to aim at.")] = None
    average_value: Annotated[Quantity | None, described("Average per Instance to aim at.")] = None
    average_utilization: Annotated[
        int | None, described("Average use to aim at, in percent of what is there.")
    ] = None


class ResourceMetric(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Resource to watch.", required=True)] = ""
    target: Annotated[MetricTarget, described("What to aim at.", required=True)] = MetricTarget()


class Metric(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource: Annotated[
        ResourceMetric | None, described("A resource of the Instances.", required=True)
    ] = None


class ScaleSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    min_replicas: Annotated[
        int,
        described(
            "How many Instances to keep in each city. In a Workload, admission requires at"
            " least 1; controllers set 0 to drain a deployment.",
            required=True,
            minimum=0,
            maximum=1000,
        ),
    ] = 0
    max_replicas: Annotated[
        int | None, described("The most to grow to. Accepted, and nothing scales by it.")
    ] = None
    metrics: Annotated[
        tuple[Metric, ...],
        described(
            "What growth would follow. Accepted, and nothing scales by it.", list_type="atomic"
        ),
    ] = ()
    instance_management_policy: Annotated[
        str,
        described(
            "How Instances are created, replaced and removed.",
            default=constants.POLICY_ORDERED_READY,
            enum=list(constants.POLICIES),
        ),
    ] = constants.POLICY_ORDERED_READY
