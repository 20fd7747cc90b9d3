"""One template and its target clusters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.karmada import constants
from datum_compute.api.karmada.policies import PolicyPlacement
from datum_compute.api.meta import EMPTY, ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "RESOURCE_BINDINGS",
    "RESOURCE_BINDING_CONDITIONS",
    "AggregatedStatusItem",
    "BindingSnapshot",
    "BoundResource",
    "ResourceBinding",
    "ResourceBindingSpec",
    "ResourceBindingStatus",
    "TargetCluster",
]

RESOURCE_BINDINGS = Resource("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding")

RESOURCE_BINDING_CONDITIONS = (
    DeclaredCondition(
        constants.CONDITION_SCHEDULED,
        true=(constants.REASON_SUCCESS,),
        false=(
            constants.REASON_NO_CLUSTER_FIT,
            constants.REASON_UNSCHEDULABLE,
            constants.REASON_SCHEDULER_ERROR,
            constants.REASON_QUOTA_EXCEEDED,
        ),
    ),
    DeclaredCondition(
        constants.CONDITION_FULLY_APPLIED,
        true=(constants.REASON_FULLY_APPLIED_SUCCESS,),
        false=(constants.REASON_FULLY_APPLIED_FAILED,),
    ),
)


class BoundResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: Annotated[str, described("Group and version.", required=True)] = ""
    kind: Annotated[str, described("Kind.", required=True)] = ""
    namespace: Annotated[str, described("Namespace.")] = ""
    name: Annotated[str, described("Name.", required=True)] = ""
    uid: Annotated[str, described("UID on the hub.")] = ""
    resource_version: Annotated[str, described("The version that was scheduled.")] = ""


class TargetCluster(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, described("Name of the cluster.", required=True)] = ""
    replicas: Annotated[int | None, described("Replicas there, for kinds that have them.")] = None


class BindingSnapshot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: Annotated[str, described("Namespace of the binding.")] = ""
    name: Annotated[str, described("Name of the binding.", required=True)] = ""
    clusters: Annotated[tuple[TargetCluster, ...], described("The clusters it targets.")] = ()


class ResourceBindingSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    resource: Annotated[BoundResource, described("The template.", required=True)] = BoundResource()
    placement: Annotated[PolicyPlacement | None, described("Which clusters are eligible.")] = None
    clusters: Annotated[tuple[TargetCluster, ...], described("The clusters chosen.")] = ()
    propagate_deps: Annotated[bool, described("Whether dependencies follow it.")] = False
    required_by: Annotated[
        tuple[BindingSnapshot, ...],
        described("The bindings whose templates depend on this one, with their clusters."),
    ] = ()
    scheduler_name: Annotated[str, described("The scheduler that picks the clusters.")] = ""
    conflict_resolution: Annotated[
        str, described("What happens to an object the member already has.")
    ] = "Abort"
    preserve_resources_on_deletion: Annotated[
        bool, described("Whether members keep their objects when the template is deleted.")
    ] = False


class AggregatedStatusItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    cluster_name: Annotated[str, described("Which cluster.", required=True)] = ""
    status: Annotated[msgspec.Raw, described("The object's status there.")] = EMPTY
    applied: Annotated[bool, described("Whether it was applied there.")] = False
    applied_message: Annotated[str, described("Why it was not.")] = ""
    health: Annotated[
        str, described("Its health there.", enum=["Healthy", "Unhealthy", "Unknown"])
    ] = "Unknown"


class ResourceBindingStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    scheduler_observed_generation: Annotated[
        int, described("Generation the scheduler has seen.", format="int64")
    ] = 0
    last_scheduled_time: Annotated[
        datetime | None, described("When clusters were last chosen.")
    ] = None
    conditions: Annotated[
        Conditions,
        described("Scheduled and FullyApplied.", list_type="map", list_keys=["type"]),
    ] = ()
    aggregated_status: Annotated[
        tuple[AggregatedStatusItem, ...], described("Status of the object in each cluster.")
    ] = ()


class ResourceBinding(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One template and its target clusters."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceBindingSpec = ResourceBindingSpec()
    status: ResourceBindingStatus = ResourceBindingStatus()
