"""How Karmada reads the status of a kind it does not know."""

from __future__ import annotations

from typing import Annotated

import msgspec

from datum_compute.api.meta import ObjectMeta
from datum_compute.api.scheme import Resource
from datum_compute.api.structural_schema import described

__all__ = [
    "INTERPRETER_CUSTOMIZATIONS",
    "CustomizationTarget",
    "Customizations",
    "InterpreterCustomization",
    "InterpreterCustomizationSpec",
    "LuaScript",
]

INTERPRETER_CUSTOMIZATIONS = Resource(
    "config.karmada.io",
    "v1alpha1",
    "resourceinterpretercustomizations",
    "ResourceInterpreterCustomization",
    namespaced=False,
)


class CustomizationTarget(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: Annotated[str, described("Group and version of the kind.", required=True)] = ""
    kind: Annotated[str, described("The kind.", required=True)] = ""


class LuaScript(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    lua_script: Annotated[str, described("The script.", required=True)] = ""


class Customizations(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    retention: Annotated[LuaScript | None, described("Fields that a member keeps.")] = None
    replica_resource: Annotated[
        LuaScript | None, described("How many replicas an object has, and what each needs.")
    ] = None
    replica_revision: Annotated[
        LuaScript | None, described("How an object is given another number of replicas.")
    ] = None
    status_reflection: Annotated[
        LuaScript | None, described("What of a member's status is reported.")
    ] = None
    status_aggregation: Annotated[
        LuaScript | None, described("How the members' reports become the template's status.")
    ] = None
    health_interpretation: Annotated[
        LuaScript | None, described("Whether an object is healthy.")
    ] = None
    dependency_interpretation: Annotated[
        LuaScript | None, described("What an object refers to.")
    ] = None


class InterpreterCustomizationSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    target: Annotated[CustomizationTarget, described("For which kind.", required=True)] = (
        CustomizationTarget()
    )
    customizations: Annotated[Customizations, described("The scripts.", required=True)] = (
        Customizations()
    )


class InterpreterCustomization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Scripts that interpret one kind. It has no status."""

    metadata: ObjectMeta = ObjectMeta()
    spec: InterpreterCustomizationSpec = InterpreterCustomizationSpec()
