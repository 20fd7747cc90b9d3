"""Reviews as Kubernetes' own clients write them: in protobuf, behind four bytes.

``kubectl auth`` sends nothing else. A review has few fields, so they are read here by their
numbers into what the same review is in JSON; fields that change no answer are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from datum_compute.platform.apiserver import status

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_RAW = 2
"""Of the envelope: the review itself. Its kind is known from the path."""

_TEXT, _TEXTS = "text", "texts"
_RESOURCE = {
    1: ("namespace", _TEXT),
    2: ("verb", _TEXT),
    3: ("group", _TEXT),
    4: ("version", _TEXT),
    5: ("resource", _TEXT),
    6: ("subresource", _TEXT),
    7: ("name", _TEXT),
}
_PATH = {1: ("path", _TEXT), 2: ("verb", _TEXT)}
_ACCESS: dict[int, tuple[str, Any]] = {
    1: ("resourceAttributes", _RESOURCE),
    2: ("nonResourceAttributes", _PATH),
}
_SUBJECT = {**_ACCESS, 3: ("user", _TEXT), 4: ("groups", _TEXTS), 6: ("uid", _TEXT)}
_RULES = {1: ("namespace", _TEXT)}

_SPECS: dict[str, dict[int, tuple[str, Any]]] = {
    "selfsubjectaccessreviews": _ACCESS,
    "selfsubjectrulesreviews": _RULES,
    "subjectaccessreviews": _SUBJECT,
}


def decode(resource: str, body: bytes) -> dict[str, Any]:
    """The review in the body of a request for this resource. Raises 400."""
    if not body.startswith(MAGIC):
        raise status.bad_request("the request body is not Kubernetes protobuf")
    try:
        envelope = dict(_fields(body[len(MAGIC) :]))
        review = _message(envelope.get(_RAW, b""), {2: ("spec", _SPECS.get(resource, {}))})
    except (ValueError, IndexError) as error:
        raise status.bad_request(f"the request body is not valid protobuf: {error}") from error
    return review


def _message(body: bytes, known: dict[int, tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _fields(body):
        if number not in known:
            continue
        name, form = known[number]
        if isinstance(form, dict):
            found[name] = _message(value, form)
        elif form == _TEXTS:
            found.setdefault(name, []).append(value.decode())
        else:
            found[name] = value.decode()
    return found


def _fields(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of every field that has bytes; the others are passed over."""
    at = 0
    while at < len(body):
        key, at = _varint(body, at)
        number, form = key >> 3, key & 7
        if form == _VARINT:
            _, at = _varint(body, at)
        elif form in (_FIXED64, _FIXED32):
            at += 8 if form == _FIXED64 else 4
        elif form == _BYTES:
            size, at = _varint(body, at)
            if at + size > len(body):
                raise ValueError(f"field {number} ends after the body")
            yield number, body[at : at + size]
            at += size
        else:
            raise ValueError(f"field {number} has the unknown form {form}")


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body) or shift > 63:
            raise ValueError("a number does not end")
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
