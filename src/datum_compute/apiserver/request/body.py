"""From a request's body to plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    elif kind in (YAML_TYPE, "text/yaml"):
        value = yaml_value(body)
    elif kind == protobuf.MEDIA_TYPE and (found := protobuf_bodies.decode_object(body)) is not None:
        value = found
    else:
        raise errors.unsupported_media(f"{JSON_TYPE}, {YAML_TYPE}")
    if not isinstance(value, dict):
        raise errors.bad_request("the request body must be a JSON object")
    return value


def yaml_value(body: bytes) -> Any:
    # Here rather than at the top: only clients that insist on YAML pay for the import.
    import yaml

    if len(body) > MAX_YAML:
        raise errors.too_large(MAX_YAML)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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
