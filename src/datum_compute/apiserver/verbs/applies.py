"""Server-side apply: a patch that states the fields its manager wants to own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.apiserver import errors
from datum_compute.apiserver.managed_fields import ownership
from datum_compute.apiserver.managed_fields.entries import APPLY
from datum_compute.apiserver.managed_fields.ownership import FieldWriter
from datum_compute.apiserver.managed_fields.types import FieldType, empty_object, type_of
from datum_compute.apiserver.managed_fields.values import merge
from datum_compute.apiserver.objects import object_meta
from datum_compute.apiserver.objects.lifecycle import is_validated
from datum_compute.apiserver.request.body import applied_duplicates, applied_value
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.storage.protocol import Managed, StoredObject

_OPTIONS = "PatchOptions"


class Applied(msgspec.Struct, frozen=True):
    """What an apply wants stored."""

    obj: dict[str, Any]
    managed: Managed
    before: StoredObject | None = None
    """What is replaced; None for a create."""
    old: dict[str, Any] | None = None
    """The content of ``before``, where ``obj`` shares parts with it."""


def config_of(call: RequestContext) -> dict[str, Any]:
    """The body."""
    value = applied_value(call.request.body)
    if not isinstance(value, dict):
        raise errors.bad_request("the body of an apply patch must be an object")
    metadata = value.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise errors.bad_request("the object's metadata is not an object")
    if metadata.get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    return value


def manager_of(call: RequestContext) -> str:
    if not call.query.get("fieldManager"):
        error = fields.required("fieldManager", "is required for apply patch")
        raise errors.invalid(_OPTIONS, "meta.k8s.io", "", [error])
    return call.field_manager(_OPTIONS)


def apply_object(
    call: RequestContext, check_creatable: Callable[[RequestContext, dict[str, Any]], None]
) -> Applied:
    """Create the object or change it. Raises 409 for conflicts with other managers."""
    kind, target = call.kind, call.target
    manager = manager_of(call)
    config = config_of(call)
    for key in ("kind", "apiVersion"):
        if not config.get(key):
            raise errors.bad_request(f"Object '{key}' is missing in the body of an apply patch")
    object_meta.check_type(kind, config)
    if config["kind"] != kind.resource.kind:
        found = f"{config['apiVersion']}, Kind={config['kind']}"
        raise errors.bad_request(f"invalid object type: {found}")
    before = call.current()
    if before is not None:
        config["metadata"].setdefault("name", target.name)
    object_meta.check_name(config, target.name)
    object_meta.set_namespace(kind, config, target.namespace)
    config = kind.to_stored(config)
    if before is None:
        if target.subresource:
            raise errors.not_found(kind.resource, target.name)
        check_creatable(call, config)
        live = {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {}}
        new, managed = merged(call, live, config, (), manager)
        return Applied(new, managed)
    old = call.plane.writer.read(kind, before)
    # What a config says of the object's identity is a condition, and nothing to merge.
    call.plane.writer.check_versions(kind, before, config["metadata"], patched=True)
    held = call.plane.store.content(before)[1]
    new, managed = merged(call, old, config, held, manager)
    return Applied(new, managed, before, old if is_validated(kind, before) else None)


def check_known(call: RequestContext, before: StoredObject | None, unknown: list[str]) -> None:
    """Raise 400 for a field that the kind does not have, unless it is in the object: a definition
    may have lost it."""
    kept: list[str] = []
    if before is not None:
        old = call.plane.writer.read(call.kind, before)
        kept = object_meta.check_metadata(old) + call.kind.schema.process(old).unknown
    for path in unknown:
        if path not in kept:
            resource = call.kind.resource
            about = f"/{call.target.name}; {resource.api_version}, Kind={resource.kind}"
            raise errors.bad_request(
                f"failed to create typed patch object ({about}): .{path}: field not declared in"
                " schema"
            )


def find_duplicates(call: RequestContext, validation: str) -> tuple[str, ...]:
    """What to say of fields that the body gives more than once. Raises 400 under strict
    validation."""
    if validation == "Ignore":
        return ()
    found = applied_duplicates(call.request.body)
    if found and validation == "Strict":
        raise errors.bad_request(f"error strict decoding YAML: {', '.join(found)}")
    return found


def merged(
    call: RequestContext,
    live: dict[str, Any],
    config: dict[str, Any],
    managed: Managed,
    manager: str,
    shown_version: str = "",
) -> tuple[dict[str, Any], Managed]:
    """The live object with the config, and its entries."""
    kind, subresource = call.kind, call.target.subresource
    by = FieldWriter(manager, kind.resource.api_version, APPLY, subresource, shown_version)
    type_ = type_of(kind)
    # The part that this path does not write is not owned either. As upstream, metadata that is
    # applied to the status is owned all the same.
    reset = "spec" if subresource == "status" else "status" if kind.has_status else ""
    now = int(call.plane.writer.now().timestamp())
    if "uid" in live["metadata"]:
        tracked = {key: value for key, value in live.items() if key != reset}
        managed = ownership.untracked(managed, tracked, by, type_, empty_object(kind), now)
    changes_more = reset in config and not is_covered(config[reset], live.get(reset), type_, reset)
    metadata = {key: value for key, value in config["metadata"].items() if key not in _IDENTITY}
    config = {key: value for key, value in config.items() if key != reset}
    return ownership.apply(
        live,
        {**config, "metadata": metadata},
        managed,
        by,
        type_,
        now,
        force=call.flag("force"),
        changes_more=changes_more,
    )


def is_covered(wanted: Any, held: Any, type_: FieldType, name: str) -> bool:
    """Whether a field has all that is wanted of it."""
    return merge({name: held}, {name: wanted}, type_)[name] is held


_IDENTITY = ("uid", "resourceVersion", "creationTimestamp", "generation", "selfLink")
