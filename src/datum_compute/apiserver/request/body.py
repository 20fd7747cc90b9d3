"""From a request's body to plain JSON values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import (
    JSON_TYPE,
    MAX_DEPTH,
    TOO_DEEP,
    YAML_TYPE,
    encode_json,
    json_value,
)
from datum_compute.apiserver.request import protobuf, protobuf_bodies

MAX_YAML = 2**18
"""Bytes of a body in YAML. Parsing it takes a thousand times as long as parsing JSON and blocks all
other requests; kubectl and similar clients convert YAML to JSON before they send it."""


def content_type(headers: Mapping[str, str]) -> str:
    """The media type of the body. A body without one counts as JSON: some clients send none."""
    value = headers.get("content-type", "")
    return value.partition(";")[0].strip().lower() or JSON_TYPE


def decode_object(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The one object in the body of a create or an update."""
    kind = content_type(headers)
    if kind == JSON_TYPE:
        value = json_value(body)
    elif kind == YAML_TYPE:
        value = yaml_value(body)
    elif kind == protobuf.MEDIA_TYPE and (found := protobuf_bodies.decode_object(body)) is not None:
        value = found
    else:
        raise errors.unsupported_media(f"{JSON_TYPE}, {YAML_TYPE}")
    if not isinstance(value, dict):
        raise errors.bad_request("the request body must be a JSON object")
    return value


MAX_DUPLICATES = 100


def duplicate_fields(headers: Mapping[str, str], body: bytes, value: Any) -> tuple[str, ...]:
    """Paths of fields that a JSON body gives more than once, of which ``value`` has the last."""
    kind = content_type(headers)
    if kind != JSON_TYPE and not kind.endswith("+json"):
        return ()
    # Each field has one colon, and those in texts stay: where no field was lost, no colon was.
    if body.count(b":") == encode_json(value).count(b":"):
        return ()
    found: list[str] = []
    _find_duplicates(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return tuple(found)


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object as they were given."""


def _find_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, inner in value:
            here = f"{path}.{key}" if path else key
            if key in seen and here not in found and len(found) < MAX_DUPLICATES:
                found.append(here)
            seen.add(key)
            _find_duplicates(inner, here, found)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _find_duplicates(inner, f"{path}[{index}]", found)


def yaml_value(body: bytes) -> Any:
    # Here rather than at the top: only clients that insist on YAML pay for the import.
    import yaml

    if len(body) > MAX_YAML:
        raise errors.too_large(MAX_YAML)
    loader = _yaml_loader()
    try:
        depth = 0
        for event in yaml.parse(body, loader):
            # An alias is how a few bytes become gigabytes; no client of an API needs one.
            if isinstance(event, yaml.AliasEvent):
                raise errors.bad_request("the request body may not contain YAML aliases")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            # Before loading: the loader recurses in C, where an overflow kills the process.
            if depth > MAX_DEPTH:
                raise errors.bad_request(TOO_DEEP)
        value = yaml.load(body, loader)  # noqa: S506 - a safe loader in either case
        # Through JSON, so that dates and other YAML values cannot reach an object.
        return json_value(encode_json(value))
    except (yaml.YAMLError, msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
        raise errors.bad_request(f"the request body is not valid YAML: {error}") from error


@cache
def _yaml_loader() -> Any:  # a class that depends on how PyYAML was built
    """Reads plain scalars as the real server's YAML library does: the booleans of YAML 1.1, decimal
    exponents without a dot, times as text, and no numbers to the base of 60."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            found = super().construct_mapping(node, deep)
            return {
                _BOOLEAN_KEYS[key] if isinstance(key, bool) else key: value
                for key, value in found.items()
            }

    for tag, pattern, first in _YAML_SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    Loader.add_constructor("tag:yaml.org,2002:int", _yaml_integer)
    Loader.add_constructor("tag:yaml.org,2002:bool", _yaml_boolean)
    Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: float(node.value))
    return Loader


def _yaml_boolean(_: Any, node: Any) -> bool:
    return node.value.lower() in ("y", "yes", "true", "on")


def _yaml_integer(_: Any, node: Any) -> int:
    text: str = node.value.replace("_", "")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    return sign * int(digits, 8 if octal else 0)


_BOOLEAN_KEYS = {True: "true", False: "false"}
"""A key is text in JSON, and ``y`` a boolean in YAML."""
_SIGNED = [*"-+0123456789"]
_YAML_SCALARS = (
    ("null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    (
        "bool",
        r"(?:y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON"
        r"|n|N|no|No|NO|false|False|FALSE|off|Off|OFF)\Z",
        [*"yYnNtTfFoO"],
    ),
    ("int", r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|0[0-7_]*|[1-9][0-9_]*)\Z", _SIGNED),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z", [*_SIGNED, "."]),
    ("merge", r"<<\Z", ["<"]),
)
"""Tag, pattern and first characters of each scalar that is no text; the first that fits counts."""
