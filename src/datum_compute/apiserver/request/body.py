"""From a request's body to plain JSON values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import msgspec

from datum_compute.api.fields import MAX_TEXT
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
        value = {} if value is None else value
    elif kind == protobuf.MEDIA_TYPE and (found := protobuf_bodies.decode_object(body)) is not None:
        value = found
    else:
        raise errors.unsupported_media(f"{JSON_TYPE}, {YAML_TYPE}")
    if not isinstance(value, dict):
        raise errors.bad_request("the request body must be a JSON object")
    return value


MAX_DUPLICATES = 100


def duplicate_fields(headers: Mapping[str, str], body: bytes, value: Any) -> tuple[str, ...]:
    """What is said of fields that a body gives more than once, of which ``value`` has the last."""
    kind = content_type(headers)
    if kind == YAML_TYPE:
        return _yaml_duplicates(body)
    if kind != JSON_TYPE and not kind.endswith("+json"):
        return ()
    return tuple(f'duplicate field "{path}"' for path in _json_duplicates(body, value))


def applied_value(body: bytes) -> Any:
    """The value of an apply patch, which is YAML; most clients send JSON, which is read faster."""
    return json_value(body) if is_json_object(body) else yaml_value(body)


def applied_duplicates(body: bytes) -> tuple[str, ...]:
    """As :func:`duplicate_fields`, of an apply patch: one text for all of them."""
    if not is_json_object(body):
        return _yaml_duplicates(body)
    found = _json_duplicates(body, json_value(body))
    return (", ".join(f'key "{path}" already set in map' for path in found),) if found else ()


def is_json_object(body: bytes) -> bool:
    """Whether a body that may be YAML is a JSON object. YAML begins with a brace too, in its flow
    style."""
    if body.lstrip()[:1] != b"{":
        return False
    try:
        _skip(body)
    except msgspec.DecodeError:
        return False
    return True


_skip = msgspec.json.Decoder(msgspec.Raw).decode
"""Reads JSON without making values of it."""


def _json_duplicates(body: bytes, value: Any) -> tuple[str, ...]:
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
            if isinstance(event, yaml.DocumentEndEvent):
                break  # what follows the first document is not read, as upstream
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
        value = next(yaml.load_all(body, loader), None)  # a safe loader in either case
        # Through JSON, so that dates and other YAML values cannot reach an object.
        return json_value(encode_json(value))
    except (yaml.YAMLError, msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
        raise errors.bad_request(f"the request body is not valid YAML: {error}") from error


def _yaml_duplicates(body: bytes) -> tuple[str, ...]:
    """One text about all keys that valid YAML gives more than once."""
    import yaml

    found: list[str] = []
    levels: list[_YamlLevel] = []
    for event in yaml.parse(body, _yaml_loader()):
        if isinstance(event, yaml.DocumentEndEvent):
            break
        level = levels[-1] if levels else None
        if isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
        elif isinstance(event, yaml.NodeEvent) and level is not None and level.at_key():
            key = event.value if isinstance(event, yaml.ScalarEvent) else ""
            if key in level.keys and len(found) < MAX_DUPLICATES:
                line = event.start_mark.line + 1 if event.start_mark else 0
                found.append(f'line {line}: key "{key[:MAX_TEXT]}" already set in map')
            level.keys.add(key)
        if isinstance(event, yaml.CollectionStartEvent):
            levels.append(_YamlLevel(isinstance(event, yaml.MappingStartEvent)))
    return ("yaml: unmarshal errors: " + ", ".join(found),) if found else ()


class _YamlLevel:
    """A map or a list while its events are read."""

    def __init__(self, is_map: bool) -> None:
        self.keys: set[str] = set()
        self._is_map = is_map
        self._nodes = 0

    def at_key(self) -> bool:
        """Whether the node that comes now is a key."""
        self._nodes += 1
        return self._is_map and self._nodes % 2 == 1


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
