"""Workload: what a user wants to run, and its status in all cities."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from datum_compute.api import conditions as conditions_
from datum_compute.api.compute import constants, reasons
from datum_compute.api.compute.declared import declared
from datum_compute.api.compute.v1alpha.instance import InstanceTemplate
from datum_compute.api.compute.v1alpha.runtime import DNS_LABEL
from datum_compute.api.compute.v1alpha.scale import ScaleSettings
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "PLACEMENT_CONDITIONS",
    "WORKLOADS",
    "WORKLOAD_CONDITIONS",
    "GatewayAddress",
    "GatewayListener",
    "GatewayRouteKind",
    "GatewayStatus",
    "Placement",
    "PlacementStatus",
    "Workload",
    "WorkloadSpec",
    "WorkloadStatus",
    "placement_to_wire",
    "workload_status_to_wire",
]

WORKLOADS = Resource(constants.GROUP, constants.VERSION, "workloads", "Workload")

WORKLOAD_CONDITIONS = (
    declared(reasons.WORKLOAD_AVAILABLE),
    declared(reasons.WORKLOAD_PROGRESSING),
    declared(reasons.WORKLOAD_RECONCILING),
    declared(reasons.WORKLOAD_STALLED),
)

PLACEMENT_CONDITIONS = (
    declared(reasons.PLACEMENT_AVAILABLE),
    declared(reasons.PLACEMENT_SCHEDULED),
)


class Placement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[
        str,
        described(
            "Name of the placement: a DNS label.",
            required=True,
            minLength=1,
            maxLength=63,
            pattern=DNS_LABEL,
        ),
    ] = ""
    city_codes: Annotated[
        tuple[str, ...],
        described("Cities to run in.", required=True, minItems=1, list_type="atomic"),
    ] = ()
    scale_settings: Annotated[
        ScaleSettings, described("How many Instances in each city.", required=True)
    ] = ScaleSettings()


class WorkloadSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    template: Annotated[InstanceTemplate, described("What each Instance is.", required=True)] = (
        InstanceTemplate()
    )
    placements: Annotated[
        tuple[Placement, ...],
        described(
            "Where to run, and how many.",
            required=True,
            minItems=1,
            list_type="map",
            list_keys=["name"],
        ),
    ] = ()


class PlacementStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the placement.", required=True)] = ""
    conditions: Annotated[
        Conditions,
        described("Available.", list_type="map", list_keys=["type"]),
    ] = ()
    replicas: Annotated[int, described("Instances that exist.", default=0)] = 0
    current_replicas: Annotated[
        int, described("Instances of the newest template that are programmed.", default=0)
    ] = 0
    updated_replicas: Annotated[
        int, described("Instances that run the newest template, ready or not.", default=0)
    ] = 0
    desired_replicas: Annotated[int, described("Instances wanted.", default=0)] = 0
    ready_replicas: Annotated[
        int, described("Instances that are ready, of any template.", default=0)
    ] = 0


class GatewayAddress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: Annotated[str, described("Kind of address.")] = ""
    value: Annotated[str, described("The address.")] = ""


class GatewayRouteKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    group: Annotated[str, described("API group of the route.")] = ""
    kind: Annotated[str, described("Kind of the route.", required=True)] = ""


class GatewayListener(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the listener.", required=True)] = ""
    attached_routes: Annotated[int, described("Routes attached to it.", required=True)] = 0
    supported_kinds: Annotated[
        tuple[GatewayRouteKind, ...],
        described("Kinds of routes it takes.", list_type="atomic"),
    ] = ()
    conditions: Annotated[
        Conditions,
        described("Conditions of the listener.", list_type="map", list_keys=["type"]),
    ] = ()


class GatewayStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    addresses: Annotated[
        tuple[GatewayAddress, ...],
        described("Addresses of the gateway.", list_type="atomic"),
    ] = ()
    conditions: Annotated[
        Conditions,
        described("Conditions of the gateway.", list_type="map", list_keys=["type"]),
    ] = ()
    listeners: Annotated[
        tuple[GatewayListener, ...],
        described("Listeners of the gateway.", list_type="map", list_keys=["name"]),
    ] = ()


class WorkloadStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    conditions: Annotated[
        Conditions,
        described(
            "Available; with a rollout policy also Progressing, Reconciling and Stalled.",
            list_type="map",
            list_keys=["type"],
        ),
    ] = ()
    deployments: Annotated[int, described("WorkloadDeployments that exist.", default=0)] = 0
    replicas: Annotated[int, described("Instances that exist, everywhere.", default=0)] = 0
    current_replicas: Annotated[
        int, described("Instances of the newest template that are programmed.", default=0)
    ] = 0
    updated_replicas: Annotated[
        int, described("Instances that run the newest template, ready or not.", default=0)
    ] = 0
    desired_replicas: Annotated[int, described("Instances wanted, everywhere.", default=0)] = 0
    ready_replicas: Annotated[
        int, described("Instances that are ready, of any template.", default=0)
    ] = 0
    observed_generation: Annotated[
        int, described("The generation this status was computed from.", format="int64")
    ] = 0
    placements: Annotated[
        tuple[PlacementStatus, ...],
        described("Status of each placement.", list_type="map", list_keys=["name"]),
    ] = ()
    gateway: Annotated[GatewayStatus | None, described("Reserved for a gateway; never filled.")] = (
        None
    )


class Workload(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An image to run in some cities, and its status there."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


def workload_status_to_wire(status: WorkloadStatus) -> dict[str, Any]:
    """JSON values for a status write; counters are there even at 0, for clients to read."""
    return {
        "conditions": conditions_.to_wire(status.conditions),
        "deployments": status.deployments,
        **_counters(status),
        "observedGeneration": status.observed_generation,
        "placements": [placement_to_wire(placement) for placement in status.placements],
    }


def placement_to_wire(placement: PlacementStatus) -> dict[str, Any]:
    return {
        "name": placement.name,
        "conditions": conditions_.to_wire(placement.conditions),
        **_counters(placement),
    }


def _counters(status: WorkloadStatus | PlacementStatus) -> dict[str, int]:
    return {
        "replicas": status.replicas,
        "currentReplicas": status.current_replicas,
        "updatedReplicas": status.updated_replicas,
        "desiredReplicas": status.desired_replicas,
        "readyReplicas": status.ready_replicas,
    }
