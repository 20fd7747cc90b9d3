"""JSON in and out, with the limits on what is read, and the media types."""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from datum_compute.apiserver import errors

MAX_BODY = 3 * 2**20
"""Bytes of a request: the real server's limit."""

MAX_DEPTH = 200
"""Levels of nesting in a body. A guess: deep schemas have some fifty."""

MAX_VALUES = 10_000
"""JSON values that are decoded, validated and encoded on the loop: some 20 ms, measured with
unknown fields, which take longest."""

BYTES_PER_VALUE = 64
"""Bytes of a long text that cost as much as a value."""

TOO_DEEP = f"the request body is nested more than {MAX_DEPTH} levels deep"

JSON_TYPE = "application/json"
YAML_TYPE = "application/yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def _number(text: str) -> float:
    """A number with a point or an exponent. A whole one becomes an integer, as in the real server,
    which writes ``7.0`` as ``7``: whoever reads an integer field finds one."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is more than a number holds")
    return int(value) if value.is_integer() and abs(value) < _PLAIN_DIGITS else value


_PLAIN_DIGITS = 1e21
"""From here on the real server writes an exponent."""

decode_json = msgspec.json.Decoder(float_hook=_number).decode
encode_json = msgspec.json.Encoder().encode


def encode_object(obj: dict[str, Any]) -> bytes:
    """An object with its metadata first: nothing before that has a field of this name."""
    return encode_json({**_FIRST, **obj})


_FIRST = {"apiVersion": "", "kind": "", "metadata": {}}
"""Every object has them."""


def json_value(body: bytes) -> Any:
    """The value of a request's body."""
    try:
        value = decode_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"the request body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise errors.bad_request(TOO_DEEP) from error
    # A body with fewer brackets cannot be that deep, and most have fewer.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Raise 400 for a value that is nested too deeply; what follows may recurse."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise errors.bad_request(TOO_DEEP)


def values_in(raw: bytes) -> int:
    """About how many JSON values these bytes hold, and never fewer."""
    # A value follows a comma, a bracket or a colon; the steps of a JSON patch's path count too.
    # One pass, where counting takes one for each mark and longer the more there are.
    marks = len(raw) - len(raw.translate(None, b",[{/"))
    return marks + len(raw) // BYTES_PER_VALUE


def json_equal(one: Any, other: Any) -> bool:
    """JSON equality: unlike in Python, true is not 1; 1 equals 1.0."""
    if one is other:
        return True
    if one != other:  # what is not equal in Python is not equal in JSON
        return False
    if type(one) is dict or type(one) is list:
        # The same text: nearly all that is equal, and in a tenth of the time.
        return encode_json(one) == encode_json(other) or _json_equal(one, other)
    return isinstance(one, bool) is isinstance(other, bool)


def _json_equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_json_equal(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_json_equal, one, other))
    return bool(one == other)


def to_yaml(body: bytes) -> bytes:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: bytes = yaml.dump(decode_json(body), Dumper=dumper, sort_keys=False, encoding="utf-8")
    return text
