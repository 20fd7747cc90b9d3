"""Components every OpenAPI document shares: metadata of objects and lists."""

from __future__ import annotations

from typing import Any

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
OWNER_REFERENCE = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"
MANAGED_FIELDS_ENTRY = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry"
FIELDS_V1 = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
PATCH = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
SCALE = "io.k8s.api.autoscaling.v1.Scale"

API_VERSION_FIELD = {
    "type": "string",
    "description": "The group and version of the API this object is written in.",
}
KIND_FIELD = {
    "type": "string",
    "description": "The kind of object this is. It cannot be changed.",
}


def reference(component: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{component}"}


def described(component: str, description: str, **extra: Any) -> dict[str, Any]:
    """A reference with a description, which OpenAPI 3.0 only allows inside ``allOf``."""
    return {"description": description, "allOf": [reference(component)], **extra}


def shared_components() -> dict[str, Any]:
    return {
        OBJECT_META: _object_meta(),
        LIST_META: _list_meta(),
        OWNER_REFERENCE: _owner_reference(),
        MANAGED_FIELDS_ENTRY: _managed_fields_entry(),
        FIELDS_V1: {
            "type": "object",
            "description": "A set of field paths in the form of a tree.",
        },
        TIME: {
            "type": "string",
            "format": "date-time",
            "description": "A time in RFC 3339 form.",
        },
        DELETE_OPTIONS: _delete_options(),
        STATUS: _status(),
        PATCH: {
            "type": "object",
            "description": "The body of a patch, by its content type.",
        },
        SCALE: _scale(),
    }


def _object_meta() -> dict[str, Any]:
    return _object(
        "What every stored object has: its name, its identity, and how it is managed.",
        {
            "annotations": _strings("Notes for tools and people; never used to select objects."),
            "creationTimestamp": described(TIME, "When the server stored the object. Read-only."),
            "deletionGracePeriodSeconds": _integer(
                "Seconds the object may take to terminate once it is deleted. Read-only."
            ),
            "deletionTimestamp": described(
                TIME,
                "When deletion was requested. The object is removed with its last finalizer. "
                "Read-only.",
            ),
            "finalizers": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
                "description": "Controllers that must finish before the object is removed.",
            },
            "generateName": _string(
                "A prefix the server completes to a unique name when no name is given."
            ),
            "generation": _integer("Counts changes of the desired state. Read-only."),
            "labels": _strings("Keys and values by which objects are grouped and selected."),
            "managedFields": {
                "type": "array",
                "items": reference(MANAGED_FIELDS_ENTRY),
                "x-kubernetes-list-type": "atomic",
                "description": "Which client manages which fields. Not tracked by this server.",
            },
            "name": _string("Unique per kind and namespace. It cannot be changed."),
            "namespace": _string("The namespace the name is unique in. It cannot be changed."),
            "ownerReferences": {
                "type": "array",
                "items": reference(OWNER_REFERENCE),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "uid",
                "description": "Objects this one depends on; it is removed after all of them.",
            },
            "resourceVersion": _string(
                "Changes with every write. Compare it for equality, or pass it back to detect "
                "a concurrent write."
            ),
            "selfLink": _string("No longer filled in."),
            "uid": _string("Unique for all time: an object created again has another. Read-only."),
        },
    )


def _list_meta() -> dict[str, Any]:
    return _object(
        "What every list has.",
        {
            "continue": _string("Pass it back to get the next page. Empty on the last one."),
            "remainingItemCount": _integer("How many objects follow after this page."),
            "resourceVersion": _string("The version at which the list was read."),
            "selfLink": _string("No longer filled in."),
        },
    )


def _owner_reference() -> dict[str, Any]:
    return _object(
        "An owner in the same namespace, or a cluster-scoped one.",
        {
            "apiVersion": _string("The owner's API version."),
            "blockOwnerDeletion": {
                "type": "boolean",
                "description": "Whether a foreground deletion of the owner waits for this object.",
            },
            "controller": {
                "type": "boolean",
                "description": "Whether this owner is the one that manages the object.",
            },
            "kind": _string("The owner's kind."),
            "name": _string("The owner's name."),
            "uid": _string("The owner's uid."),
        },
        required=["apiVersion", "kind", "name", "uid"],
    )


def _managed_fields_entry() -> dict[str, Any]:
    return _object(
        "The fields one client manages.",
        {
            "apiVersion": _string("The API version the fields are written in."),
            "fieldsType": _string("Always FieldsV1."),
            "fieldsV1": described(FIELDS_V1, "The fields."),
            "manager": _string("The client's name."),
            "operation": _string("Apply or Update."),
            "subresource": _string("The subresource written through, if any."),
            "time": described(TIME, "When this entry last changed."),
        },
    )


def _delete_options() -> dict[str, Any]:
    return _object(
        "Options of a deletion.",
        {
            "apiVersion": API_VERSION_FIELD,
            "kind": KIND_FIELD,
            "dryRun": {
                "type": "array",
                "items": {"type": "string"},
                "description": "All: process the request without storing anything.",
            },
            "gracePeriodSeconds": _integer("Seconds the object may take to terminate."),
            "preconditions": _object(
                "What must hold for the deletion to happen.",
                {"resourceVersion": _string("The version."), "uid": _string("The uid.")},
            ),
            "propagationPolicy": _string("Background, Foreground or Orphan."),
        },
    )


def _status() -> dict[str, Any]:
    return _object(
        "The answer to a request that does not return an object.",
        {
            "apiVersion": API_VERSION_FIELD,
            "kind": KIND_FIELD,
            "code": {"type": "integer", "format": "int32", "description": "The HTTP code."},
            "details": {"type": "object", "description": "The object concerned, and each cause."},
            "message": _string("The outcome as a sentence."),
            "metadata": described(LIST_META, "Empty."),
            "reason": _string("The outcome as one CamelCase word."),
            "status": _string("Success or Failure."),
        },
    )


def _scale() -> dict[str, Any]:
    scale = _object(
        "How many replicas an object wants and has.",
        {
            "apiVersion": API_VERSION_FIELD,
            "kind": KIND_FIELD,
            "metadata": described(OBJECT_META, "Metadata of the scaled object."),
            "spec": _object("The desired state.", {"replicas": _integer("The desired number.")}),
            "status": _object(
                "The observed state.",
                {
                    "replicas": _integer("The observed number."),
                    "selector": _string("Selects the replicas."),
                },
            ),
        },
    )
    scale["x-kubernetes-group-version-kind"] = [
        {"group": "autoscaling", "kind": "Scale", "version": "v1"}
    ]
    return scale


def _object(
    description: str, properties: dict[str, Any], required: list[str] | None = None
) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "description": description,
        "properties": properties,
    }
    if required:
        schema["required"] = required
    return schema


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _strings(description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": description,
    }


def _integer(description: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int64", "description": description}
