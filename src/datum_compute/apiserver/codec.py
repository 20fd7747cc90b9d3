"""From a request's body to plain JSON values, and from ``Accept`` to the form of the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from datum_compute.apiserver import errors
from datum_compute.apiserver.builtin import object_bodies
from datum_compute.apiserver.request import protobuf

MAX_BODY = 3 * 2**20
"""Bytes of a request: the real server's limit."""

MAX_YAML = 2**18
"""Bytes of a body in YAML. Reading it takes a thousand times as long as reading JSON, and all
others wait meanwhile; kubectl and its kin turn YAML into JSON before they send it."""

MAX_DEPTH = 200
"""Levels of nesting in a body. A guess: deep schemas have some fifty."""

_TOO_DEEP = f"the request body is nested more than {MAX_DEPTH} levels deep"

JSON_TYPE = "application/json"
YAML_TYPE = "application/yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

decode_json = msgspec.json.Decoder().decode
encode_json = msgspec.json.Encoder().encode


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
    elif kind == protobuf.MEDIA_TYPE and (found := object_bodies.decode(body)) is not None:
        value = found
    else:
        raise errors.unsupported_media(f"{JSON_TYPE}, {YAML_TYPE}")
    if not isinstance(value, dict):
        raise errors.bad_request("the request body must be a JSON object")
    return value


def json_value(body: bytes) -> Any:
    try:
        value = decode_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"the request body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise errors.bad_request(_TOO_DEEP) from error
    # Only a body with that many brackets can be that deep, and few have them.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Everything behind this point may recurse."""
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
    raise errors.bad_request(_TOO_DEEP)


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
            # Before loading: the loader recurses in C and takes the whole process with it.
            if depth > MAX_DEPTH:
                raise errors.bad_request(_TOO_DEEP)
        value = yaml.load(body, loader)  # noqa: S506 - a safe loader in either case
        # Through JSON, so that dates and other YAML values cannot reach an object.
        return json_value(encode_json(value))
    except (yaml.YAMLError, msgspec.MsgspecError, ValueError, TypeError, OverflowError) as error:
        raise errors.bad_request(f"the request body is not valid YAML: {error}") from error


class Form(msgspec.Struct, frozen=True):
    """In which form the caller wants objects."""

    transform: str = ""
    """Empty, Table or PartialObjectMetadata(List)."""
    yaml: bool = False


PLAIN = Form()

_TRANSFORMS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
_AS = re.compile(r"as=([A-Za-z]+)")
_forms: dict[str, Form | None] = {JSON_TYPE: PLAIN, "*/*": PLAIN, "": PLAIN}


def accepted_form(headers: Mapping[str, str]) -> Form:
    """The first form in ``Accept`` that we can give. Raises 406 when there is none."""
    accept = headers.get("accept", "")
    try:
        form = _forms[accept]
    except KeyError:
        form = _negotiate(accept)
        if len(_forms) < 256:  # clients have a handful; an attacker gets no more memory
            _forms[accept] = form
    if form is None:
        raise errors.not_acceptable(f"{JSON_TYPE}, {YAML_TYPE}")
    return form


def _negotiate(accept: str) -> Form | None:
    for clause in accept.split(","):
        media, _, parameters = clause.strip().partition(";")
        if media in (JSON_TYPE, "application/*", "*/*"):
            wanted = _AS.search(parameters)
            if wanted is None:
                return PLAIN
            if wanted[1] in _TRANSFORMS:
                return Form(wanted[1])
        elif media == YAML_TYPE:
            return Form(yaml=True)
    return None


def to_yaml(body: bytes) -> bytes:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: bytes = yaml.dump(decode_json(body), Dumper=dumper, sort_keys=False, encoding="utf-8")
    return text
