"""Type, name and metadata: the rules for objects of every kind.

These functions change the given object in place and return field errors, or raise where a real
server refuses before validation.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from datum_compute.api import fields, name_patterns
from datum_compute.api.fields import MAX_ERRORS, MAX_TEXT, FieldError
from datum_compute.apiserver import errors
from datum_compute.apiserver.kinds.access_kinds import RBAC, path_segment_fault
from datum_compute.apiserver.kinds.builtin_rules import NAMESPACE_CLEANUP
from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.schema.formats import is_date_time
from datum_compute.apiserver.schema.outcome import MAX_UNKNOWN
from datum_compute.env import Environment

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_STANDARD_FINALIZERS = (FOREGROUND, ORPHAN, NAMESPACE_CLEANUP)

_is_label = re.compile(name_patterns.DNS_LABEL).fullmatch
_is_subdomain = re.compile(name_patterns.DNS_SUBDOMAIN).fullmatch
_is_label_value = re.compile(f"({name_patterns.QUALIFIED_NAME})?").fullmatch
_is_qualified = re.compile(name_patterns.QUALIFIED_NAME).fullmatch

_ANNOTATIONS_LIMIT = 256 * 1024
_LABELS_LIMIT = 256 * 1024
"""Characters of all labels, as of annotations: they are kept in memory, and decoded at once."""
_REFERENCES_LIMIT = 1000
"""Owners, and finalizers, of one object. A guess: hundreds of times what objects have."""
_GENERATED_LENGTH = 5
_GENERATED_FROM = "bcdfghjklmnpqrstvwxz2456789"  # neither vowels nor look-alikes, as upstream
_NAME_LIMIT = 253
_GENERATE_NAME_LIMIT = 63 - _GENERATED_LENGTH


class _OwnerShape(msgspec.Struct, rename="camel", gc=False):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _MetaShape(msgspec.Struct, rename="camel", gc=False):
    """The types of metadata's fields; anything else in it is an unknown field."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    self_link: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_OwnerShape] | None = None
    finalizers: list[str] | None = None
    managed_fields: list[dict[str, Any]] | None = None


_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(_MetaShape))
_OWNER_FIELDS = frozenset(field.encode_name for field in msgspec.structs.fields(_OwnerShape))
_ENTRY_FIELDS = frozenset(
    ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")
)
_convert = msgspec.convert


def timestamp(now: datetime) -> str:
    # Ten times as fast as strftime, and every create needs one.
    return now.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def check_type(kind: ServedKind, obj: dict[str, Any]) -> None:
    """The body must be of the kind in the path; built-ins may leave it out."""
    resource = kind.resource
    api_version, name = obj.get("apiVersion"), obj.get("kind")
    if kind.builtin:
        api_version = api_version or resource.api_version
        name = name or resource.kind
    if not name:
        raise errors.bad_request("Object 'Kind' is missing in the request body")
    if not api_version:
        raise errors.bad_request("Object 'apiVersion' is missing in the request body")
    if api_version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if name != resource.kind and kind.builtin:
        raise errors.bad_request(
            f"the kind in the data ({name}) does not match the expected kind ({resource.kind})"
        )
    obj["apiVersion"] = api_version
    obj["kind"] = name


def check_kind(kind: ServedKind, obj: dict[str, Any]) -> None:
    """A custom object's kind is checked after its version, and not on a subresource."""
    claimed = obj["kind"]
    if claimed != kind.resource.kind:
        error = fields.invalid("kind", claimed, f"must be {kind.resource.kind}")
        raise errors.invalid(str(claimed), kind.resource.group, _name_of(obj), [error])


def check_metadata(obj: dict[str, Any]) -> list[str]:
    """Check the types of metadata (400), and drop empty and unknown fields. Returns the unknown.
    Entries of managed fields that are given stay, for the writer to take."""
    metadata = obj.get("metadata")
    if metadata is None:
        obj["metadata"] = {}
        return []
    try:
        _convert(metadata, _MetaShape)
    except msgspec.ValidationError:
        metadata = obj["metadata"] = _without_nulls(metadata)
    for key in ("creationTimestamp", "deletionTimestamp"):
        if (given := metadata.get(key)) and not is_date_time(given):
            raise errors.NotDecoded(f'metadata.{key} is no time: "{given[:MAX_TEXT]}"')
    unknown = [f"metadata.{key[:MAX_TEXT]}" for key in metadata if key not in _KNOWN]
    if owners := metadata.get("ownerReferences"):
        unknown += _drop_unknown_of_owners(metadata, owners)
    if managed := metadata.get("managedFields"):
        unknown += _unknown_of("managedFields", managed, _ENTRY_FIELDS)
    del unknown[MAX_UNKNOWN:]
    if unknown or not all(metadata.values()):
        # No managers at all are a statement too.
        kept = {key: value for key, value in metadata.items() if value or key == "managedFields"}
        metadata = {key: value for key, value in kept.items() if key in _KNOWN}
        obj["metadata"] = metadata
    metadata.pop("selfLink", None)
    return unknown


def _without_nulls(metadata: Any) -> Any:
    """Metadata that cannot be read as it is, with an empty value for each null in it, as in Go.
    Raises where that does not help."""
    if isinstance(metadata, dict):
        metadata = dict(metadata)
        for key, empty in _EMPTY_ITEMS.items():
            held = metadata.get(key)
            if isinstance(held, dict):
                metadata[key] = {name: empty if one is None else one for name, one in held.items()}
            elif isinstance(held, list):
                metadata[key] = [empty if one is None else one for one in held]
    try:
        _convert(metadata, _MetaShape)
    except msgspec.ValidationError as error:
        fault = _wrong_value(metadata) or str(error).replace("`$", "`metadata").replace("`", '"')
        raise errors.NotDecoded(f"the object's metadata cannot be read: {fault}") from error
    return metadata


def _wrong_value(metadata: Any) -> str:
    """The label or annotation whose value is no string: msgspec names the map and not the key."""
    for name in ("labels", "annotations") if isinstance(metadata, dict) else ():
        held = metadata.get(name)
        for key, value in held.items() if isinstance(held, dict) else ():
            if not isinstance(value, str):
                kind = type(value).__name__
                return f'metadata.{name}[{key[:MAX_TEXT]}]: expected "str", got "{kind}"'
    return ""


_EMPTY_ITEMS: dict[str, Any] = {
    "labels": "",
    "annotations": "",
    "finalizers": "",
    "ownerReferences": {},
    "managedFields": {},
}


def _drop_unknown_of_owners(metadata: dict[str, Any], owners: list[dict[str, Any]]) -> list[str]:
    if all(owner.keys() <= _OWNER_FIELDS for owner in owners):
        return []
    kept = [{key: owner[key] for key in owner if key in _OWNER_FIELDS} for owner in owners]
    metadata["ownerReferences"] = kept
    return _unknown_of("ownerReferences", owners, _OWNER_FIELDS)


def _unknown_of(name: str, items: list[dict[str, Any]], known: frozenset[str]) -> list[str]:
    return [
        f"metadata.{name}[{index}].{key[:MAX_TEXT]}"
        for index, item in enumerate(items)
        for key in item
        if key not in known
    ]


def is_standard(finalizer: str) -> bool:
    """Whether it is one of the server's own, which have no domain."""
    return finalizer in _STANDARD_FINALIZERS


def set_namespace(kind: ServedKind, obj: dict[str, Any], namespace: str) -> None:
    """The namespace of the path wins; a body that names another is refused."""
    metadata = obj["metadata"]
    named = metadata.get("namespace", "")
    if named and named != namespace:
        if not kind.resource.namespaced:
            metadata.pop("namespace")
            return
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def check_name(obj: dict[str, Any], name: str) -> None:
    """On update: the name in the body must be that in the path."""
    named = obj["metadata"].get("name")
    if not named:
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable:"
            " name must be provided"
        )
    if named != name:
        raise errors.bad_request(
            f"the name of the object ({named}) does not match the name on the URL ({name})"
        )


def generate_name(metadata: dict[str, Any], env: Environment) -> None:
    """Fill in the name from ``generateName`` where only that is given."""
    base = metadata.get("generateName")
    if base and not metadata.get("name"):
        chance = env.random("apiserver.names")
        tail = "".join(chance.choices(_GENERATED_FROM, k=_GENERATED_LENGTH))
        metadata["name"] = base[:_GENERATE_NAME_LIMIT] + tail


def validate_metadata(kind: ServedKind, metadata: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    name = metadata.get("name", "")
    if not name:
        errors.append(fields.required("metadata.name", "name or generateName is required"))
    elif not _is_subdomain(name) or len(name) > _NAME_LIMIT or kind.resource.plural == "namespaces":
        errors += _name_faults(kind, name)
    base = metadata.get("generateName")
    if base:
        errors += _base_faults(kind, base)
    labels = metadata.get("labels")
    if labels:
        if sum(map(len, labels)) + sum(map(len, labels.values())) > _LABELS_LIMIT:
            return [*errors, fields.too_long("metadata.labels", "", _LABELS_LIMIT)]
        for key, value in labels.items():
            if not _is_label_value(value) or len(value) > 63:
                errors.append(_label_value_fault(value))
            errors += _qualified_faults("metadata.labels", key)
            if len(errors) > MAX_ERRORS:
                return errors
    annotations = metadata.get("annotations")
    if annotations:
        errors += _annotation_faults(annotations)
    for field in ("ownerReferences", "finalizers"):
        if (count := len(metadata.get(field) or ())) > _REFERENCES_LIMIT:
            return [*errors, fields.too_many(f"metadata.{field}", count, _REFERENCES_LIMIT)]
    owners = metadata.get("ownerReferences")
    if owners:
        errors += _owner_faults(owners)
    finalizers = metadata.get("finalizers")
    if finalizers:
        errors += _finalizer_faults(kind, finalizers)
    return errors


def _finalizer_faults(kind: ServedKind, finalizers: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, one in enumerate(finalizers):
        if len(errors) > MAX_ERRORS:
            break
        errors += _qualified_faults("metadata.finalizers", one)
        is_core = kind.builtin and kind.resource.group in ("", RBAC)
        if is_core and "/" not in one and one not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(fields.invalid(f"metadata.finalizers[{index}]", one, detail))
    if FOREGROUND in finalizers and ORPHAN in finalizers:
        detail = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        errors.append(fields.invalid("metadata.finalizers", finalizers, detail))
    return errors


def _base_faults(kind: ServedKind, base: str) -> list[FieldError]:
    """A base may end with a dash, as the name that begins with it goes on. As upstream, a letter
    takes the place of the dash and of the character before it."""
    masked = base[:-2] + "a" if base.endswith("-") and len(base) > 1 else base
    faults = _name_faults(kind, masked)
    return [replace(fault, path="metadata.generateName", value=base) for fault in faults]


def _name_faults(kind: ServedKind, name: str) -> list[FieldError]:
    is_event = kind.builtin and kind.resource.plural == "events"
    if kind.resource.group == RBAC or is_event:  # any segment of a path, such as system:reader
        detail = path_segment_fault(name)
        return [fields.invalid("metadata.name", name, detail)] if detail else []
    if kind.resource.plural == "namespaces" and not kind.resource.group:
        if _is_label(name) and len(name) <= 63:
            return []
        if len(name) > 63:
            return [fields.invalid("metadata.name", name, "must be no more than 63 characters")]
        detail = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or"
            " '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or"
            f" '123-abc', regex used for validation is '{name_patterns.DNS_LABEL}')"
        )
        return [fields.invalid("metadata.name", name, detail)]
    if len(name) > _NAME_LIMIT:
        detail = f"must be no more than {_NAME_LIMIT} characters"
        return [fields.invalid("metadata.name", name, detail)]
    if _is_subdomain(name):
        return []
    detail = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-'"
        " or '.', and must start and end with an alphanumeric character (e.g. 'example.com',"
        f" regex used for validation is '{name_patterns.DNS_SUBDOMAIN}')"
    )
    return [fields.invalid("metadata.name", name, detail)]


def _label_value_fault(value: str) -> FieldError:
    if len(value) > 63:
        return fields.invalid("metadata.labels", value, "must be no more than 63 characters")
    detail = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_'"
        " or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or"
        " 'my_value',  or '12345', regex used for validation is"
        " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )
    return fields.invalid("metadata.labels", value, detail)


_QUALIFIED_LIMIT = 253 + 1 + 63
"""The longest key that can be valid."""


def _qualified_faults(path: str, key: str) -> tuple[FieldError, ...]:
    # The same few keys are on nearly every object. Only what can be valid is cached, so that
    # no client fills the memory with endless keys.
    if len(key) > _QUALIFIED_LIMIT:
        return _judge_qualified(path, key)
    return _known_qualified(path, key)


def _judge_qualified(path: str, key: str) -> tuple[FieldError, ...]:
    prefix, slash, name = key.rpartition("/")
    if slash and not (_is_subdomain(prefix) and len(prefix) <= _NAME_LIMIT):
        detail = "prefix part must be a lowercase RFC 1123 subdomain of at most 253 characters"
        return (fields.invalid(path, key, detail),)
    if not name or len(name) > 63 or not _is_qualified(name):
        detail = (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start"
            " and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or"
            " '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
        return (fields.invalid(path, key, detail),)
    return ()


_known_qualified = lru_cache(maxsize=4096)(_judge_qualified)


def _annotation_faults(annotations: dict[str, str]) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        if len(errors) > MAX_ERRORS:
            return errors
        # Unlike labels, annotation keys are compared in lower case.
        errors += _qualified_faults("metadata.annotations", key.lower())
        size += len(key) + len(value)
    if size > _ANNOTATIONS_LIMIT:
        errors.append(fields.too_long("metadata.annotations", "", _ANNOTATIONS_LIMIT))
    return errors


_OWNER_KEYS = (("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid"))


def _owner_faults(owners: list[dict[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    for owner in owners:
        if len(errors) > MAX_ERRORS:
            return errors
        for key, what in _OWNER_KEYS:
            if not owner.get(key):
                path = f"metadata.ownerReferences.{key}"
                errors.append(fields.invalid(path, "", f"{what} must not be empty"))
        version = owner.get("apiVersion") or ""
        if version.count("/") > 1:
            path = "metadata.ownerReferences.apiVersion"
            errors.append(fields.invalid(path, version, "version must not be empty"))
        if (version, owner.get("kind")) == ("v1", "Event"):
            detail = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(fields.invalid("metadata.ownerReferences", owner, detail))
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        detail = "Only one reference can have Controller set to true"
        errors.append(fields.invalid("metadata.ownerReferences", owners, detail))
    return errors


def _name_of(obj: dict[str, Any]) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
