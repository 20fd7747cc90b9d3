"""Projects: each is a control plane of its own."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.structural import described

GROUP = "resourcemanager.miloapis.com"

PROJECTS = Resource(GROUP, "v1alpha1", "projects", "Project", namespaced=False)

CONDITION_READY = "Ready"
REASON_READY = "Ready"
REASON_PROVISIONING = "Provisioning"
FINALIZER_PROJECT = "resourcemanager.miloapis.com/project-controller"


class ProjectOwner(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    kind: Annotated[str, described("Kind of the owner.", required=True, enum=["Organization"])] = ""
    name: Annotated[str, described("Name of the owner.", required=True)] = ""


class ProjectSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    owner_ref: Annotated[ProjectOwner, described("Who owns the project.", required=True)] = (
        ProjectOwner()
    )


class ProjectStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    conditions: Annotated[
        Conditions,
        described("Ready and ResourceCleanup.", list_type="map", list_keys=["type"]),
    ] = ()


class Project(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tenant's control plane."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ProjectSpec = ProjectSpec()
    status: ProjectStatus = ProjectStatus()
