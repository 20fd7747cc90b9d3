"""Projects: each is its own control plane."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.conditions import Conditions
from datum_compute.api.meta import ObjectMeta
from datum_compute.api.resourcemanager.v1alpha1.organizations import (
    CONDITION_READY,
    GROUP,
    REASON_READY,
)
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "CONDITION_RESOURCE_CLEANUP",
    "FINALIZER_PROJECT",
    "PROJECTS",
    "PROJECT_CONDITIONS",
    "REASON_CLEANUP_AWAITING_COMPLETION",
    "REASON_CLEANUP_COMPLETE",
    "REASON_CLEANUP_STARTED",
    "REASON_PROJECT_NAME_CONFLICT",
    "REASON_PROVISIONING",
    "Project",
    "ProjectOwner",
    "ProjectSpec",
    "ProjectStatus",
]

PROJECTS = Resource(GROUP, "v1alpha1", "projects", "Project", namespaced=False)

CONDITION_RESOURCE_CLEANUP = "ResourceCleanup"
"""Everything in a project that is being deleted is removed."""
REASON_PROVISIONING = "Provisioning"
"""The control plane is being set up."""
REASON_PROJECT_NAME_CONFLICT = "ProjectNameConflict"
"""The name is taken by another project."""
REASON_CLEANUP_STARTED = "CleanupStarted"
"""The objects of the project are being deleted."""
REASON_CLEANUP_AWAITING_COMPLETION = "CleanupAwaitingCompletion"
"""All of them are marked for deletion, and some are left."""
REASON_CLEANUP_COMPLETE = "CleanupComplete"
"""Nothing is left."""

FINALIZER_PROJECT = "resourcemanager.miloapis.com/project-controller"
"""On a Project: held until nothing is left in it."""

PROJECT_CONDITIONS = (
    DeclaredCondition(
        CONDITION_READY,
        true=(REASON_READY,),
        false=(REASON_PROVISIONING, REASON_PROJECT_NAME_CONFLICT),
    ),
    DeclaredCondition(
        CONDITION_RESOURCE_CLEANUP,
        true=(REASON_CLEANUP_COMPLETE,),
        false=(REASON_CLEANUP_STARTED, REASON_CLEANUP_AWAITING_COMPLETION),
    ),
)


class ProjectOwner(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    kind: Annotated[str, described("Kind of the owner.", required=True, enum=["Organization"])] = ""
    name: Annotated[str, described("Name of the owner.", required=True)] = ""


class ProjectSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    owner_ref: Annotated[ProjectOwner, described("Owner of the project.", required=True)] = (
        ProjectOwner()
    )


class ProjectStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    conditions: Annotated[
        Conditions,
        described("Ready and ResourceCleanup.", list_type="map", list_keys=["type"]),
    ] = ()


class Project(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A project and its control plane."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ProjectSpec = ProjectSpec()
    status: ProjectStatus = ProjectStatus()
