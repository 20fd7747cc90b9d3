"""One manifest for one cluster."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.karmada import constants
from datum_compute.api.meta import EMPTY, ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "WORKS",
    "WORK_CONDITIONS",
    "ManifestIdentifier",
    "ManifestStatus",
    "Work",
    "WorkSpec",
    "WorkStatus",
    "WorkloadTemplate",
]

WORKS = Resource("work.karmada.io", "v1alpha1", "works", "Work")

WORK_CONDITIONS = (
    DeclaredCondition(
        constants.CONDITION_APPLIED,
        true=(constants.REASON_APPLIED_SUCCESSFUL,),
        false=(constants.REASON_APPLIED_FAILED,),
    ),
    DeclaredCondition(
        constants.CONDITION_DISPATCHING,
        true=(constants.REASON_DISPATCHING,),
        false=(constants.REASON_SUSPEND_DISPATCHING,),
    ),
)


class _ManifestMetadata(msgspec.Struct):
    name: str
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Manifest(msgspec.Struct, rename="camel"):
    """What every manifest has, whatever its kind."""

    api_version: str
    kind: str
    metadata: _ManifestMetadata


_decode_manifest = msgspec.json.Decoder(_Manifest).decode


class WorkloadTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    manifests: Annotated[
        tuple[msgspec.Raw, ...],
        described("Whole objects, as the member is to have them; one in practice."),
    ] = ()

    def __post_init__(self) -> None:
        for position, manifest in enumerate(self.manifests):
            try:
                _decode_manifest(manifest)
            except msgspec.DecodeError as error:
                raise ValueError(f"manifests[{position}]: {error}") from error


class WorkSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    workload: Annotated[WorkloadTemplate, described("What to apply.")] = WorkloadTemplate()
    suspend_dispatching: Annotated[bool, described("Whether to hold it back.")] = False
    preserve_resources_on_deletion: Annotated[
        bool, described("Whether the member keeps its object when this is deleted.")
    ] = False


class ManifestIdentifier(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    ordinal: Annotated[int, described("Place among the manifests.", required=True)] = 0
    group: Annotated[str, described("Group of the object.")] = ""
    version: Annotated[str, described("Version of the object.", required=True)] = ""
    kind: Annotated[str, described("Kind of the object.", required=True)] = ""
    resource: Annotated[str, described("Plural name of the kind.")] = ""
    namespace: Annotated[str, described("Namespace of the object.")] = ""
    name: Annotated[str, described("Name of the object.", required=True)] = ""


class ManifestStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    identifier: Annotated[ManifestIdentifier, described("Which object.", required=True)] = (
        ManifestIdentifier()
    )
    status: Annotated[msgspec.Raw, described("Its status in the member.")] = EMPTY
    health: Annotated[
        str,
        described("Its health in the member.", enum=["Healthy", "Unhealthy", "Unknown"]),
    ] = "Unknown"


class WorkStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    conditions: Annotated[
        Conditions,
        described("Applied and Dispatching.", list_type="map", list_keys=["type"]),
    ] = ()
    manifest_statuses: Annotated[
        tuple[ManifestStatus, ...], described("Status of each object.")
    ] = ()


class Work(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One manifest for one cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkSpec = WorkSpec()
    status: WorkStatus = WorkStatus()
