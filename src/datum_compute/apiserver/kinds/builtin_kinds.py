"""The kinds every plane serves without a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datum_compute.api.scheme import Resource
from datum_compute.apiserver.kinds import columns
from datum_compute.apiserver.kinds.columns import AGE, NAME, TableColumn
from datum_compute.apiserver.kinds.served_kind import VERBS, ServedKind
from datum_compute.apiserver.schema import compiled


def builtin_kinds() -> list[ServedKind]:
    return [
        _namespaces(),
        _config_maps(),
        _secrets(),
        _service_accounts(),
        _events(),
        _leases(),
        _definitions(),
    ]


def _namespaces() -> ServedKind:
    finalizers = {"type": "array", "items": {"type": "string"}}
    return _builtin(
        Resource("", "v1", "namespaces", "Namespace", namespaced=False),
        ("ns",),
        TableColumn("Status", "string", ".status.phase"),
        AGE,
        schema=_loose(
            "A scope for names: objects in different namespaces may have the same name.",
            spec=_loose("How it is deleted.", finalizers=finalizers),
            status=_loose("Whether it is in use.", phase=_text("Active or Terminating.")),
        ),
        has_status=True,
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
        selectable_fields=("status.phase",),
    )


def _config_maps() -> ServedKind:
    return _builtin(
        Resource("", "v1", "configmaps", "ConfigMap"),
        ("cm",),
        TableColumn("Data", "string", "", computed=columns.count("data", "binaryData")),
        AGE,
        schema=_loose(
            "Configuration that is not secret.",
            data=_texts("Strings by key."),
            binaryData=_texts("Bytes by key, in base64.", format="byte"),
            immutable=_IMMUTABLE,
        ),
    )


def _secrets() -> ServedKind:
    return _builtin(
        Resource("", "v1", "secrets", "Secret"),
        (),
        TableColumn("Type", "string", ".type"),
        TableColumn("Data", "string", "", computed=columns.count("data")),
        AGE,
        schema=_loose(
            "Configuration with restricted access.",
            type={**_text("What the data is for."), "default": "Opaque"},
            data=_texts("Values by key, in base64.", format="byte"),
            stringData=_texts("Values by key, not encoded; added to data when written."),
            immutable=_IMMUTABLE,
        ),
        selectable_fields=("type",),
    )


def _service_accounts() -> ServedKind:
    automount = {
        "type": "boolean",
        "description": "Whether its token is mounted.",
    }
    return _builtin(
        Resource("", "v1", "serviceaccounts", "ServiceAccount"),
        ("sa",),
        TableColumn("Secrets", "string", "", computed=columns.count("secrets")),
        AGE,
        schema=_loose("An identity for processes.", automountServiceAccountToken=automount),
    )


def _events() -> ServedKind:
    return _builtin(
        Resource("", "v1", "events", "Event"),
        ("ev",),
        TableColumn("Last Seen", "string", "", computed=columns.event_last_seen),
        TableColumn("Type", "string", ".type"),
        TableColumn("Reason", "string", ".reason"),
        TableColumn("Object", "string", "", computed=columns.event_object),
        TableColumn("Subobject", "string", ".involvedObject.fieldPath", 1),
        TableColumn("Source", "string", "", 1, computed=columns.event_source),
        TableColumn("Message", "string", "", computed=columns.event_message),
        TableColumn("First Seen", "string", "", 1, computed=columns.event_first_seen),
        TableColumn("Count", "string", "", 1, computed=columns.event_count),
        TableColumn("Name", "string", ".metadata.name", 1, "name"),
        schema=_loose(
            "Something that happened to an object. Kept for an hour.",
            involvedObject=_loose("The object it happened to."),
            count=_whole("How often it happened."),
            message=_text("What happened, for people."),
            reason=_text("What happened, as one CamelCase word."),
            type=_text("Normal or Warning."),
        ),
        named_first=False,
        selectable_fields=(
            *(f"involvedObject.{name}" for name in _INVOLVED),
            *("reason", "reportingComponent", "source", "type"),
        ),
    )


def _leases() -> ServedKind:
    moment = {"type": "string", "format": "date-time"}
    spec = _loose(
        "The holder, and for how long.",
        holderIdentity=_text("The holder."),
        leaseDurationSeconds={**_whole("Seconds it is held without renewal."), "minimum": 1},
        leaseTransitions={**_whole("How often the holder changed."), "minimum": 0},
        acquireTime={**moment, "description": "When the holder acquired it."},
        renewTime={**moment, "description": "When the holder last renewed it."},
    )
    return _builtin(
        Resource("coordination.k8s.io", "v1", "leases", "Lease"),
        (),
        TableColumn("Holder", "string", ".spec.holderIdentity"),
        AGE,
        schema=_loose("A lock that one of several processes holds for a while.", spec=spec),
    )


def _definitions() -> ServedKind:
    name = "CustomResourceDefinition"
    return _builtin(
        Resource("apiextensions.k8s.io", "v1", f"{name.lower()}s", name, namespaced=False),
        ("crd", "crds"),
        TableColumn("Created At", "date", "", computed=columns.created_at),
        schema=_loose(
            "Adds a kind to the server.",
            spec=_loose(
                "The kind: its names, its versions and their schemas.",
                group=_text("The API group; with the plural it is the definition's name."),
                scope=_text("Namespaced or Cluster."),
                names=_loose("The names of the kind."),
                versions={
                    "type": "array",
                    "description": "The versions, exactly one of which is stored.",
                    "items": _loose("A version, its schema, its columns and subresources."),
                },
            ),
            status=_loose("Whether the kind is served."),
        ),
        has_status=True,
        categories=("api-extensions",),
    )


def _builtin(
    resource: Resource,
    short_names: tuple[str, ...],
    *columns: TableColumn,
    schema: Mapping[str, Any],
    has_status: bool = False,
    verbs: tuple[str, ...] = VERBS,
    categories: tuple[str, ...] = (),
    selectable_fields: tuple[str, ...] = (),
    named_first: bool = True,
) -> ServedKind:
    return ServedKind(
        resource=resource,
        list_kind=f"{resource.kind}List",
        singular=resource.kind.lower(),
        short_names=short_names,
        categories=categories,
        columns=(NAME, *columns) if named_first else columns,
        has_status=has_status,
        schema=compiled(schema),
        verbs=verbs,
        builtin=True,
        selectable_fields=selectable_fields,
    )


def _loose(description: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that checks the types of the given fields and keeps all others, as upstream has
    many."""
    return {
        "type": "object",
        "description": description,
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": properties,
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _texts(description: str, **rules: str) -> dict[str, Any]:
    values = {"type": "string", **rules}
    return {"type": "object", "description": description, "additionalProperties": values}


def _whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int32", "description": description}


_IMMUTABLE = {"type": "boolean", "description": "Whether the data may never change again."}
_INVOLVED = (
    "apiVersion",
    "fieldPath",
    "kind",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
)
