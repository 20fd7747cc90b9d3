"""The value of a row: the object as JSON and, after a line break, its managed fields.

JSON as it is written here has no line break. Sets of fields are compressed: they repeat the names
of the object's fields, and objects of one kind mostly have the same sets, so few are compressed
more than once.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import msgspec

from datum_compute.apiserver.storage.protocol import Managed, ManagedEntry

_BREAK = b"\n"
_CACHED_BYTES = 2048
_RAW_DEFLATE = -15

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[ManagedEntry, ...]).decode


def join(raw: bytes, managed: Managed) -> bytes:
    if not managed:
        return raw
    packed = [(*each[:-1], _compressed(each[-1])) for each in map(msgspec.structs.astuple, managed)]
    return b"%b\n%b" % (raw, _encode(packed))


def split(value: bytes) -> tuple[bytes, Managed]:
    """Raises ValueError for managed fields that cannot be read."""
    raw, found, packed = value.partition(_BREAK)
    if not found:
        return raw, ()
    try:
        return raw, tuple(
            msgspec.structs.replace(each, fields=_expanded(each.fields)) for each in _decode(packed)
        )
    except (msgspec.MsgspecError, zlib.error) as error:
        raise ValueError(f"managed fields: {error}") from error


def object_of(value: bytes) -> bytes:
    return value.partition(_BREAK)[0]


def _compressed(fields: bytes) -> bytes:
    return _known_compressed(fields) if len(fields) <= _CACHED_BYTES else _compress(fields)


def _expanded(packed: bytes) -> bytes:
    return _known_expanded(packed) if len(packed) <= _CACHED_BYTES else _expand(packed)


def _compress(fields: bytes) -> bytes:
    return zlib.compress(fields, wbits=_RAW_DEFLATE)


def _expand(packed: bytes) -> bytes:
    return zlib.decompress(packed, wbits=_RAW_DEFLATE)


_known_compressed = lru_cache(512)(_compress)
_known_expanded = lru_cache(512)(_expand)
"""The cache gives objects with the same set the same bytes."""
