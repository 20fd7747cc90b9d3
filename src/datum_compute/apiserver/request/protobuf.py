"""A reader of Kubernetes protobuf: four magic bytes, then a message.

A message is read by its field numbers into its JSON form, by a *form* for each field: a text,
texts, a flag, a number, a time, a map of texts or of bytes, a message, or a list of messages.
Fields without a form are skipped; so are empty texts, counts of zero and empty times, which Go
writes where JSON has nothing. Written by hand, because protobuf libraries need generated code for
every message and only a handful are read here.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from datum_compute.apiserver import codec, errors

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"

TEXT, TEXTS, FLAG, TEXT_MAP, BYTES_MAP = "text", "text list", "flag", "text map", "bytes map"
COUNT = "number"
"""A number that is left out where it is zero."""
GIVEN_NUMBER, GIVEN_TEXT = "given number", "given text"
"""Of a field that Go writes only where it is set: zero and empty mean what they say."""
TIME, MICRO_TIME = "time", "time with microseconds"
JSON = "JSON"

Message = dict[int, tuple[str, Any]]
"""From a field's number to its name in JSON and its form; ``[message]`` is a list of them."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_NUMBERS = (FLAG, COUNT, GIVEN_NUMBER)
_MOMENT: Message = {1: ("seconds", COUNT), 2: ("nanos", COUNT)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPE: Message = {1: ("apiVersion", TEXT), 2: ("kind", TEXT)}


def unwrap(body: bytes) -> tuple[dict[str, Any], bytes]:
    """The apiVersion and kind of a body, and the message in it. Raises 400."""
    if not body.startswith(MAGIC):
        raise errors.bad_request("the request body is not Kubernetes protobuf")
    parts = {number: value for number, value in _checked(body[len(MAGIC) :]) if _is_bytes(value)}
    return read(parts.get(1, b""), _TYPE), parts.get(2, b"")


def read(body: bytes, message: Message) -> dict[str, Any]:
    """The message in JSON values. Raises 400."""
    found: dict[str, Any] = {}
    for number, value in _checked(body):
        if number not in message:
            continue
        name, form = message[number]
        if (form in _NUMBERS) != isinstance(value, int):
            expected = form if isinstance(form, str) else "message"
            raise _invalid(f"field {number}: expected a {expected}")
        _take(found, name, form, value)
    return found


def _take(found: dict[str, Any], name: str, form: Any, value: Any) -> None:
    if form == FLAG:
        found[name] = value != 0
    elif form in (COUNT, GIVEN_NUMBER):
        if value or form == GIVEN_NUMBER:
            found[name] = value - 2**64 if value >= 2**63 else value
    elif form in (TIME, MICRO_TIME):
        if value:
            found[name] = _time(value, form)
    elif form == GIVEN_TEXT:
        found[name] = _text(value)
    elif form == JSON:
        found[name] = codec.json_value(read(value, {1: ("raw", GIVEN_TEXT)})["raw"].encode())
    elif form == TEXTS:
        found.setdefault(name, []).append(_text(value))
    elif form in (TEXT_MAP, BYTES_MAP):
        parts = {number: part for number, part in _checked(value) if _is_bytes(part)}
        content = parts.get(2, b"")
        entry = _text(content) if form == TEXT_MAP else b64encode(content).decode()
        found.setdefault(name, {})[_text(parts.get(1, b""))] = entry
    elif isinstance(form, list):
        found.setdefault(name, []).append(read(value, form[0]))
    elif isinstance(form, dict):
        found[name] = read(value, form)
    elif value:
        found[name] = _text(value)


def _time(value: bytes, form: str) -> str:
    moment = read(value, _MOMENT)
    seconds, nanos = moment.get("seconds", 0), moment.get("nanos", 0)
    try:
        when = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise _invalid(f"{seconds} seconds since 1970 are no time: {error}") from error
    if not 0 <= nanos < 10**9:
        raise _invalid(f"{nanos} is no part of a second in nanoseconds")
    precision = "microseconds" if form == MICRO_TIME else "seconds"
    return when.isoformat(timespec=precision).removesuffix("+00:00") + "Z"


def _is_bytes(value: int | bytes) -> bool:
    return isinstance(value, bytes)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise _invalid(str(error)) from error


def _checked(body: bytes) -> Iterator[tuple[int, Any]]:
    try:
        yield from _fields(body)
    except ValueError as error:
        raise _invalid(str(error)) from error


def _invalid(why: str) -> errors.ApiError:
    return errors.bad_request(f"the request body is not valid protobuf: {why}")


def _fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and content of every field that is a number or has bytes."""
    at = 0
    while at < len(body):
        key, at = _varint(body, at)
        number, form = key >> 3, key & 7
        if form == _VARINT:
            value, at = _varint(body, at)
            yield number, value
        elif form in (_FIXED64, _FIXED32):
            at += 8 if form == _FIXED64 else 4
        elif form == _BYTES:
            size, at = _varint(body, at)
            if at + size > len(body):
                raise ValueError(f"field {number} extends past the end of the body")
            yield number, body[at : at + size]
            at += size
        else:
            raise ValueError(f"field {number} has the unknown wire type {form}")


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body) or shift > 63:
            raise ValueError("unterminated varint")
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def write(number: int, *contents: bytes | str) -> bytes:
    """A field with bytes: a text, or a message given by its fields."""
    parts = [part.encode() if isinstance(part, str) else part for part in contents]
    size = sum(map(len, parts))
    return b"".join([_encode_varint(number << 3 | _BYTES), _encode_varint(size), *parts])


def _encode_varint(value: int) -> bytes:
    low = []
    while value > 0x7F:
        low.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*low, value])
