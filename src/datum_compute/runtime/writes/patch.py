"""The shapes in which reconciles write: compared first, minimal, conditional, repeatable.

Every function here takes the object as it was read and what is wanted of it, sends the
difference as a merge patch, and returns the object as the server has it afterwards. No
difference, no write. A write carries the uid and the resourceVersion of what was read, so it
never lands on a successor of the same name, drops another writer's entry, or undoes a write
that overtook it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.decisions.admission.name_rules import is_label_value

Values = dict[str, Any]
"""A JSON object as plain values."""


def values(raw: msgspec.Raw) -> Values:
    """A raw subtree as plain values; absent and null are the empty object."""
    decoded = msgspec.json.decode(raw) if raw else None
    return decoded if isinstance(decoded, dict) else {}


def status_values(obj: Object) -> Values:
    """The status of an object to which a writer adds its part; empty where a view has found that
    it cannot be read, so that the next write replaces it."""
    return {} if obj.has_unreadable_status else values(obj.status)


def difference(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> Values:
    """The merge patch that turns ``current`` into exactly ``wanted``; empty when equal.

    A null in ``wanted`` counts as absent, as it does to a server.
    """
    change: Values = {
        key: None for key, value in current.items() if value is not None and key not in wanted
    }
    for key, value in wanted.items():
        present = current.get(key)
        if present == value:
            continue  # the usual case: nothing inside differs
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            inner = difference(present, value)
            if inner:
                change[key] = inner
        else:
            change[key] = value
    return change


async def ensure_metadata(
    client: Client,
    resource: Resource,
    obj: Object,
    *,
    finalizer: str = "",
    labels: Mapping[str, str | None] | None = None,
    annotations: Mapping[str, str | None] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """The object with these entries, in one write with a change of the spec if one is due.

    None removes an entry; entries not named are left alone, except labels that a server refuses.
    """
    metadata: Values = {}
    if changed := {**refused_labels(obj), **_entries(obj.metadata.labels, labels)}:
        metadata["labels"] = changed
    if changed := _entries(obj.metadata.annotations, annotations):
        metadata["annotations"] = changed
    if finalizer and finalizer not in obj.metadata.finalizers:
        metadata["finalizers"] = [*obj.metadata.finalizers, finalizer]
    if not metadata and not spec:
        return obj
    metadata["uid"] = obj.metadata.uid
    metadata["resourceVersion"] = obj.metadata.resource_version
    body: Values = {"metadata": metadata}
    if spec:
        body["spec"] = spec
    return await client.patch(resource, obj.name, merge(body), obj.namespace)


async def release_finalizer(
    client: Client, resource: Resource, obj: Object, *finalizers: str
) -> None:
    """Remove our finalizers, in one write. An object that does not exist is fine."""
    left = [name for name in obj.metadata.finalizers if name not in finalizers]
    if len(left) == len(obj.metadata.finalizers):
        return
    metadata: Values = {
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
        "finalizers": left,
    }
    if refused := refused_labels(obj):
        metadata["labels"] = refused
    try:
        await client.patch(resource, obj.name, merge({"metadata": metadata}), obj.namespace)
    except errors.NotFound:
        pass


async def write_status(
    client: Client, resource: Resource, obj: Object, wanted: Mapping[str, Any]
) -> Object:
    """The object with exactly this status, or ``Conflict`` where it has moved on since.

    The precondition is needed even with a single writer: an abandoned write that arrives late
    would undo the ones after it.
    """
    stored = values(obj.status)
    change = difference(stored, _without_refused(stored, wanted))
    if not change:
        return obj
    metadata = {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version}
    body = {"metadata": metadata, "status": change}
    return await client.patch(resource, obj.name, merge(body), obj.namespace, subresource="status")


async def copy_status(
    client: Client, resource: Resource, copy: Object, original: msgspec.Raw
) -> Object:
    """The copy with exactly the status of its original. The caller is its only writer."""
    # Equal bytes are equal values; an unchanged copy mostly has the same bytes.
    if bytes(copy.status) == bytes(original):
        return copy
    return await write_status(client, resource, copy, values(original))


async def delete_if_present(client: Client, resource: Resource, obj: Object) -> None:
    """Delete this very object; nothing happens where it is deleted or replaced already."""
    await delete_by_uid(client, resource, obj.name, obj.namespace, obj.metadata.uid)


async def delete_by_uid(
    client: Client, resource: Resource, name: str, namespace: str, uid: str
) -> None:
    """:func:`delete_if_present` for an object of which only name and uid are known."""
    try:
        await client.delete(resource, name, namespace, uid=uid)
    except (errors.NotFound, errors.Conflict):
        pass


def refused_labels(obj: Object) -> dict[str, None]:
    """The removal of labels whose value no server accepts. An older store or a backup may have
    them; a server that checks them refuses every other write to the object."""
    return {key: None for key, value in obj.metadata.labels.items() if not _is_accepted(value)}


def _without_refused(stored: Values, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status without conditions that were stored as no server accepts them: of another writer,
    an older store or a backup. They are kept by writers that do not know them, and a server that
    checks them refuses the whole status."""
    refused = [each.get("type") for each in _objects(stored) if not _is_accepted_condition(each)]
    if not refused or not isinstance(wanted.get("conditions"), list):
        return wanted
    dropped = [
        each
        for each in _objects(wanted)
        if each.get("type") in refused and not _is_accepted_condition(each)
    ]
    return {**wanted, "conditions": [each for each in wanted["conditions"] if each not in dropped]}


def _objects(status: Mapping[str, Any]) -> list[Values]:
    """The conditions of a status that are objects: of one that is copied they may be anything."""
    found = status.get("conditions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _is_accepted_condition(condition: Values) -> bool:
    try:
        return _are_accepted(
            condition.get("type", ""), condition.get("status", ""), condition.get("reason", "")
        )
    except TypeError:
        return False  # a list or an object, which no cache takes


@lru_cache(maxsize=1024)  # the same few texts in every status
def _are_accepted(*texts: object) -> bool:
    type_, status, reason = texts
    if not (isinstance(type_, str) and isinstance(status, str) and isinstance(reason, str)):
        return False
    return conditions.is_accepted(type_, status, reason)


@lru_cache(maxsize=8192)  # the same few values in every reconcile
def _is_accepted(value: str) -> bool:
    return not value or is_label_value(value)


def _entries(
    current: Mapping[str, str], wanted: Mapping[str, str | None] | None
) -> dict[str, str | None]:
    return {key: value for key, value in (wanted or {}).items() if current.get(key) != value}
