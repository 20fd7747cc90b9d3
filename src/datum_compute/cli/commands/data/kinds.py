"""ConfigMaps and Secrets as the commands treat them: what a list shows, and what may be changed.

Uses plain JSON values, so that a list is quick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from datum_compute.api.scheme import Resource
from datum_compute.cli import tables
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import Command, Remark, Suggestion, command
from datum_compute.cli.queries import owner_of

Json = Mapping[str, Any]

OPAQUE = "Opaque"
REGISTRY_CREDENTIAL = "kubernetes.io/dockerconfigjson"


class DataKind(NamedTuple):
    verb: str
    resource: Resource
    hidden: bool
    """Whether values are never shown."""

    @property
    def list_command(self) -> Command:
        return command("secrets", "list") if self.hidden else command("config", "list")

    def title(self, name: str) -> str:
        return f'{self.resource.kind} "{name}"'


CONFIG = DataKind("config", tables.CONFIG_MAPS, hidden=False)
SECRETS = DataKind("secrets", tables.SECRETS, hidden=True)


def type_of(secret: Json) -> str:
    return str(secret.get("type") or OPAQUE)


def require_own(kind: DataKind, obj: Json) -> None:
    """Raise for an object that another program keeps."""
    title = kind.title(obj["metadata"]["name"])
    owner = owner_of(obj)
    if owner:
        raise _refused(f"{title} belongs to {owner}", Remark("choose another name"))
    if kind.hidden and type_of(obj) not in (OPAQUE, REGISTRY_CREDENTIAL):
        raise _refused(
            f"{title} is of type {type_of(obj)}, which this command leaves alone",
            Remark("choose another name"),
        )


def require_changeable(kind: DataKind, obj: Json) -> None:
    require_own(kind, obj)
    if obj.get("immutable"):
        raise _refused(
            f"{kind.title(obj['metadata']['name'])} is immutable",
            Remark("create one with another name, and deploy the workload with it"),
        )


def _refused(message: str, suggestion: Suggestion) -> CommandError:
    return CommandError(message, suggestion, exit_code=Exit.CONFLICT, code="Conflict")
