"""WorkloadDeployment: the Instances of one workload's placement in one city."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from datum_compute.api import conditions as conditions_
from datum_compute.api.compute import constants, reasons
from datum_compute.api.compute.declared import declared
from datum_compute.api.compute.v1alpha.instance import InstanceTemplate
from datum_compute.api.compute.v1alpha.scale import ScaleSettings
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.references import LocationReference
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "WORKLOAD_DEPLOYMENTS",
    "WORKLOAD_DEPLOYMENT_CONDITIONS",
    "WorkloadDeployment",
    "WorkloadDeploymentSpec",
    "WorkloadDeploymentStatus",
    "WorkloadReference",
    "deployment_status_to_wire",
]

WORKLOAD_DEPLOYMENTS = Resource(
    constants.GROUP, constants.VERSION, "workloaddeployments", "WorkloadDeployment"
)

WORKLOAD_DEPLOYMENT_CONDITIONS = (
    declared(reasons.DEPLOYMENT_AVAILABLE),
    declared(
        reasons.DEPLOYMENT_REPLICAS_READY,
        inherits_from="the unready Instance of highest priority",
    ),
    declared(reasons.DEPLOYMENT_REFERENCED_DATA),
    declared(reasons.DEPLOYMENT_CELL_REACHABLE),
    declared(reasons.DEPLOYMENT_SCHEDULED),
    declared(reasons.DEPLOYMENT_PROPAGATED),
    declared(reasons.DEPLOYMENT_REMOVED),
    declared(reasons.DEPLOYMENT_FOUND_ON_HUB),
)


class WorkloadReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the Workload.", required=True)] = ""
    uid: Annotated[str, described("UID of the Workload in the project.", required=True)] = ""


class WorkloadDeploymentSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    workload_ref: Annotated[
        WorkloadReference, described("The Workload this belongs to.", required=True)
    ] = WorkloadReference()
    placement_name: Annotated[str, described("The placement it serves.", required=True)] = ""
    city_code: Annotated[str, described("The city it is in.", required=True)] = ""
    template: Annotated[InstanceTemplate, described("What each Instance is.", required=True)] = (
        InstanceTemplate()
    )
    scale_settings: Annotated[ScaleSettings, described("How many Instances.", required=True)] = (
        ScaleSettings()
    )


class WorkloadDeploymentStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    location: Annotated[
        LocationReference | None, described("The Location it runs at, once known.")
    ] = None
    conditions: Annotated[
        Conditions,
        described(
            "Available, ReplicasReady, CellReachable, Scheduled, Propagated, Removed and"
            " FoundOnHub.",
            list_type="map",
            list_keys=["type"],
        ),
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
    observed_generation: Annotated[
        int, described("The project's generation this status was computed from.", format="int64")
    ] = 0
    suspended: Annotated[
        bool, described("Whether it is stopped: none of its Instances runs until it is started.")
    ] = False


class WorkloadDeployment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The Instances of one workload's placement in one city."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadDeploymentSpec = WorkloadDeploymentSpec()
    status: WorkloadDeploymentStatus = WorkloadDeploymentStatus()

    @property
    def source_generation(self) -> int:
        """The project generation of this spec: as stamped, or its own where it is not."""
        try:
            return int(self.metadata.annotations[constants.ANNOTATION_SOURCE_GENERATION])
        except (KeyError, ValueError):
            return self.metadata.generation

    @property
    def suspended_by(self) -> str:
        """Who stopped it; empty where it is to run."""
        return self.metadata.annotations.get(constants.ANNOTATION_SUSPENDED, "")


def deployment_status_to_wire(status: WorkloadDeploymentStatus) -> dict[str, Any]:
    """JSON values for a status write; counters are there even at 0, for clients to read."""
    wire: dict[str, Any] = {
        "conditions": conditions_.to_wire(status.conditions),
        "replicas": status.replicas,
        "currentReplicas": status.current_replicas,
        "updatedReplicas": status.updated_replicas,
        "desiredReplicas": status.desired_replicas,
        "readyReplicas": status.ready_replicas,
        "observedGeneration": status.observed_generation,
    }
    if status.location is not None:
        wire["location"] = {
            "name": status.location.name,
            "namespace": status.location.namespace,
        }
    if status.suspended:
        wire["suspended"] = True
    return wire
