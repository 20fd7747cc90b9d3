"""Entries of ``managedFields``: as records, and on the wire.

An object's entries are stored beside it and put into it when it leaves the server, so that what
the server itself reads of an object has none. Sets are kept as the bytes of their ``FieldsV1``
form; objects of one kind mostly have the same, and share them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.api.fields import MAX_ERRORS, FieldError
from datum_compute.apiserver import errors
from datum_compute.apiserver.managed_fields import sets
from datum_compute.apiserver.managed_fields.sets import FieldSet
from datum_compute.apiserver.storage.protocol import Managed, ManagedEntry

APPLY, UPDATE = "Apply", "Update"
FIELDS_TYPE = "FieldsV1"
MAX_MANAGER = 128
"""Bytes of a manager's name, as upstream."""
MAX_SUBRESOURCE = 256

_SHARED_BYTES = 2048
"""Sets up to this size are shared and kept decoded. A guess: those of objects of 4 KB."""
_SHARED_SETS = 512
"""How many of them: some megabytes decoded."""

_encode = msgspec.json.Encoder(order="sorted").encode
_encode_text = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def pack(fields_: FieldSet) -> bytes:
    """The bytes of a set; equal sets have equal bytes."""
    packed = _encode(fields_)
    return _shared(packed) if len(packed) <= _SHARED_BYTES else packed


def unpack(packed: bytes) -> FieldSet:
    return _unpacked(packed) if len(packed) <= _SHARED_BYTES else _decode(packed)


@lru_cache(_SHARED_SETS)
def _shared(packed: bytes) -> bytes:
    return packed


_unpacked = lru_cache(_SHARED_SETS)(_decode)


def is_same(one: Managed, other: Managed) -> bool:
    """Whether they differ in nothing but their times."""
    return one is other or [_timeless(each) for each in one] == [_timeless(each) for each in other]


def _timeless(entry: ManagedEntry) -> tuple[str, ...] | tuple[Any, ...]:
    return (*identity(entry), entry.api_version, entry.fields)


def identity(entry: ManagedEntry) -> tuple[str, str, str, str]:
    """Two entries of an object do not have the same. Whoever applies has one entry for all
    versions."""
    version = "" if entry.operation == APPLY else entry.api_version
    return entry.manager, entry.operation, version, entry.subresource


def in_order(found: Sequence[ManagedEntry]) -> Managed:
    """As upstream sorts them."""
    return tuple(
        sorted(
            found,
            key=lambda each: (
                each.operation,
                each.time or 0,
                each.manager,
                each.api_version,
                each.subresource,
            ),
        )
    )


def with_entries(raw: bytes, managed: Managed) -> bytes:
    """The object with its entries. ``raw`` has metadata before anything else that could have a
    field of this name (:func:`..codec.encode_object`)."""
    if not managed:
        return raw
    start = raw.index(_METADATA) + len(_METADATA)
    return b"".join((raw[:start], b'"managedFields":', to_wire(managed), b",", raw[start:]))


_METADATA = b'"metadata":{'


def to_wire(managed: Managed) -> bytes:
    """The value of ``managedFields``."""
    parts = [
        _head(each.manager, each.operation, each.api_version, each.subresource, each.time)
        + each.fields
        for each in managed
    ]
    return b"[%b}]" % b"},".join(parts) if parts else b"[]"


@lru_cache(1024)
def _head(
    manager: str, operation: str, api_version: str, subresource: str, time: int | None
) -> bytes:
    head = {"manager": manager} if manager else {}
    head["operation"] = operation
    if subresource:
        head["subresource"] = subresource
    head["apiVersion"] = api_version
    if time is not None:
        moment = datetime.fromtimestamp(time, UTC).replace(tzinfo=None)
        head["time"] = moment.isoformat(timespec="seconds") + "Z"
    head["fieldsType"] = FIELDS_TYPE
    return _encode_text(head)[:-1] + b',"fieldsV1":'


class _WireEntry(msgspec.Struct, rename="camel"):
    manager: str | None = None
    operation: str | None = None
    api_version: str | None = None
    time: datetime | None = None
    fields_type: str | None = None
    fields_v1: Any = msgspec.field(default=None, name="fieldsV1")
    subresource: str | None = None


def read(given: list[Any], groups: Collection[str]) -> Managed | None:
    """The entries that a client gives, of versions of these groups. None where one of them is not
    as a server would have written it: then none counts, and those that are stored stay. Raises 400
    where one has a field of another type."""
    found: dict[tuple[str, ...], ManagedEntry] = {}
    try:
        wire = msgspec.convert(given, list[_WireEntry])
    except msgspec.ValidationError as error:
        raise errors.NotDecoded(f"the entries of managedFields cannot be read: {error}") from error
    for entry in wire:
        is_known = entry.operation in (APPLY, UPDATE) and entry.fields_type == FIELDS_TYPE
        if not is_known or not entry.api_version:
            return None
        try:
            packed = pack(sets.read(entry.fields_v1 or {}))
        except ValueError:
            return None
        group = entry.api_version.rpartition("/")[0]
        if packed == b"{}" or group not in groups:
            continue
        stored = ManagedEntry(
            entry.manager or "",
            entry.operation or "",
            entry.api_version,
            entry.subresource or "",
            None if entry.time is None else int(entry.time.timestamp()),
            packed,
        )
        found[identity(stored)] = stored
    return in_order(list(found.values()))


def faults_of(managed: Managed) -> list[FieldError]:
    """What is wrong with entries that a client has given, once they are those of the object."""
    found: list[FieldError] = []
    for index, entry in enumerate(managed):
        path = f"metadata.managedFields[{index}]"
        found += manager_faults(f"{path}.manager", entry.manager)
        if len(entry.subresource) > MAX_SUBRESOURCE:
            found.append(fields.too_long(f"{path}.subresource", "", MAX_SUBRESOURCE))
    return found[:MAX_ERRORS]


def manager_faults(path: str, name: str) -> list[FieldError]:
    """What is wrong with the name of a manager."""
    if len(name.encode()) > MAX_MANAGER:
        return [fields.too_long(path, name, MAX_MANAGER)]
    if not name.isprintable():
        return [fields.invalid(path, name, "should only contain printable characters")]
    return []
