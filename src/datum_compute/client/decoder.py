"""Decodes responses into objects, so that one bad object hides no other.

An envelope keeps spec and status raw, so only metadata can fail to decode. API servers do
not send such metadata, but older stores, aggregated servers and proxies may:

- A field of a wrong type is left out and the object returned, so that a list never shows it
  as absent. Of labels, annotations, finalizers and owners only the bad entries are left out.
  An unreadable deletionTimestamp still marks the object as deleted.
- Without a readable identity (name, namespace, uid, revision) an item or an event is
  skipped, and a single object is ``Malformed``.

Either is reported once per object and fault, by default in the log. A response that is not
in the API's form is always ``Malformed``; in particular only a list can be an empty list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from datum_compute.api.meta import EMPTY, ListMeta, Object, ObjectList, ObjectMeta, OwnerReference
from datum_compute.log import get_logger

logger = get_logger(__name__)

DECODE_ERRORS = (msgspec.DecodeError, RecursionError)
"""What msgspec raises for bytes of another form, or nested too deeply."""

MAX_REPORTED = 1000
"""Reported faults remembered per client; beyond that they may be reported again."""

_DELETED_AT_UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_IDENTITY = ("name", "namespace", "uid", "resource_version")


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object of a response that cannot be read in full."""

    cluster: str
    resource: str
    key: str
    """``namespace/name``, or the place in the response where no name can be read."""
    problem: str
    skipped: bool
    """Whether the object was skipped, or only a part of its metadata."""


UnreadableHandler = Callable[[UnreadableObject], None]


class Decoder:
    """Decodes the responses of one server, and reports each fault once."""

    def __init__(self, cluster: str, on_unreadable: UnreadableHandler | None = None) -> None:
        self._cluster = cluster
        self._on_unreadable = on_unreadable or _log
        self._reported: set[tuple[str, str, str]] = set()

    def single(self, resource: str, body: bytes) -> Object:
        """Raises one of ``DECODE_ERRORS`` for what is not an object."""
        found = self.embedded(resource, body)
        if not found.kind:
            raise msgspec.ValidationError("the object has no kind")
        return found

    def item(self, resource: str, body: msgspec.Raw) -> Object:
        """An object of a list or of an event. Raises one of ``DECODE_ERRORS`` if it has no name."""
        found = self.embedded(resource, body)
        if not found.metadata.name:
            raise msgspec.ValidationError("the object has no name")
        return found

    def embedded(self, resource: str, body: bytes | msgspec.Raw) -> Object:
        """An object within a list or an event, which may omit its kind."""
        try:
            return Object.from_wire(body)
        except DECODE_ERRORS:
            found, problems = _read_loosely(body)
        for problem in problems:
            self.report(resource, f"{found.namespace}/{found.name}".lstrip("/"), problem)
        return found

    def page(self, resource: str, body: bytes) -> ObjectList:
        """Raises one of ``DECODE_ERRORS`` for what is not a list."""
        try:
            found = ObjectList.from_wire(body)
        except DECODE_ERRORS:
            return self._page_of_each(resource, _as_list(body))
        if not found.items:
            _as_list(body)  # raises unless it is a list
        elif not all(item.metadata.name for item in found.items):
            return self._page_of_each(resource, _as_list(body))
        return found

    def _page_of_each(self, resource: str, page: _LooseList) -> ObjectList:
        items = []
        kind = page.kind.removesuffix("List")
        for place, raw in enumerate(page.items or ()):
            try:
                item = self.item(resource, raw)
            except DECODE_ERRORS as error:
                self.report(resource, f"items[{place}]", str(error), skipped=True)
                continue
            item.api_version = item.api_version or page.api_version
            item.kind = item.kind or kind
            items.append(item)
        meta = page.metadata
        return ObjectList(items, meta.resource_version, meta.continue_, meta.remaining_item_count)

    def report(self, resource: str, key: str, problem: str, *, skipped: bool = False) -> None:
        fault = (resource, key, problem)
        if fault in self._reported:
            return
        if len(self._reported) >= MAX_REPORTED:
            self._reported.clear()
        self._reported.add(fault)
        self._on_unreadable(UnreadableObject(self._cluster, resource, key, problem, skipped))


def _log(found: UnreadableObject) -> None:
    logger.warning(
        "an object cannot be read in full",
        cluster=found.cluster,
        resource=found.resource,
        key=found.key,
        problem=found.problem[:300],
        skipped=found.skipped,
    )


class _LooseList(msgspec.Struct, kw_only=True, rename="camel"):
    kind: str
    items: list[msgspec.Raw] | None
    api_version: str = ""
    metadata: ListMeta = ListMeta()


class _LooseObject(msgspec.Struct, kw_only=True, rename="camel"):
    metadata: dict[str, msgspec.Raw]
    api_version: str = ""
    kind: str = ""
    spec: msgspec.Raw = EMPTY
    status: msgspec.Raw = EMPTY
    data: msgspec.Raw = EMPTY


_decode_list = msgspec.json.Decoder(_LooseList).decode
_decode_loose = msgspec.json.Decoder(_LooseObject).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NAMED = {field.encode_name for field in msgspec.structs.fields(_LooseObject)}
_FIELDS = {
    field.name: (field.encode_name, msgspec.json.Decoder(field.type).decode)
    for field in msgspec.structs.fields(ObjectMeta)
}


def _as_list(body: bytes) -> _LooseList:
    page = _decode_list(body)
    if not page.kind.endswith("List"):
        raise msgspec.ValidationError(f"a list was expected, this is a {page.kind[:60]!r}")
    return page


def _read_loosely(body: bytes | msgspec.Raw) -> tuple[Object, list[str]]:
    wire = _decode_loose(body)
    values: dict[str, Any] = {}
    problems = []
    for name, (encoded, decode) in _FIELDS.items():
        raw = wire.metadata.get(encoded)
        if raw is None or bytes(raw) == b"null":  # null means absent
            continue
        try:
            values[name] = decode(raw)
        except DECODE_ERRORS as error:
            if name in _IDENTITY:
                raise
            problems.append(f"metadata.{encoded}: {error}")
            values |= _readable_part(name, raw)
    fields = _decode_fields(body)
    found = Object(
        wire.api_version,
        wire.kind,
        ObjectMeta(**values),
        wire.spec.copy(),
        wire.status.copy(),
        wire.data.copy(),
        {name: raw.copy() for name, raw in fields.items() if name not in _NAMED},
    )
    return found, problems


def _readable_part(name: str, raw: msgspec.Raw) -> dict[str, Any]:
    """What can be kept of a metadata field that does not decode as a whole."""
    if name == "deletion_timestamp":
        return {name: _DELETED_AT_UNKNOWN_TIME}
    try:
        if name in ("labels", "annotations"):
            entries = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            texts = {key: _one(value, str) for key, value in entries.items()}
            return {name: {key: text for key, text in texts.items() if text is not None}}
        if name in ("finalizers", "owner_references"):
            kind = str if name == "finalizers" else OwnerReference
            members = [_one(m, kind) for m in msgspec.json.decode(raw, type=list[msgspec.Raw])]
            return {name: tuple(member for member in members if member is not None)}
    except DECODE_ERRORS:
        pass  # not even the outer form is right: nothing to keep
    return {}


def _one(raw: msgspec.Raw, kind: type) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except DECODE_ERRORS:
        return None
