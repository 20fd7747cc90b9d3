"""Rules of ConfigMaps and Secrets beyond their schema: keys, sizes, types, immutability."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.api.fields import FieldError

MAX_BYTES = 2**20
"""Of all values of one object, as upstream."""
_KEY_LIMIT = 253
_is_key = re.compile(r"[-._a-zA-Z0-9]+").fullmatch
_KEY_DETAIL = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',"
    "  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_IMMUTABLE = "field is immutable when `immutable` is set"
_ACCOUNT = "kubernetes.io/service-account.name"

REQUIRED_KEYS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_OF_JSON = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")


def validate_config_map(obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    """Of a ConfigMap whose fields have their types."""
    errors = _held(obj, old, ("data", "binaryData"))
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    errors += _keys("data", data)
    for key in data.keys() & binary.keys():
        detail = "duplicate of key present in binaryData"
        errors.append(fields.invalid(f"data[{key}]", key, detail))
    errors += _keys("binaryData", binary)
    decoded, faults = _decoded("binaryData", binary)
    size = sum(len(text.encode()) for text in data.values()) + sum(map(len, decoded.values()))
    if size > MAX_BYTES:
        errors.append(fields.too_long("", "", MAX_BYTES))
    return errors + faults


def validate_secret(obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    """Of a Secret whose fields have their types, with its ``stringData`` in its data."""
    errors: list[FieldError] = []
    if old is not None and obj.get("type") != old.get("type"):
        errors.append(fields.invalid("type", obj.get("type"), "field is immutable"))
    errors += _held(obj, old, ("data",))
    data = obj.get("data") or {}
    errors += _keys("data", data)
    decoded, faults = _decoded("data", data)
    if sum(map(len, decoded.values())) > MAX_BYTES:
        errors.append(fields.too_long("data", "", MAX_BYTES))
    return errors + faults + _of_type(obj, decoded)


def _of_type(obj: dict[str, Any], data: Mapping[str, bytes]) -> list[FieldError]:
    kind = obj.get("type")
    if kind == "kubernetes.io/service-account-token":
        named = (obj["metadata"].get("annotations") or {}).get(_ACCOUNT)
        return [] if named else [fields.required(f"metadata.annotations[{_ACCOUNT}]")]
    if kind == "kubernetes.io/basic-auth":
        keys = ("username", "password")
        missing = [] if any(key in data for key in keys) else list(keys)
    else:
        missing = [key for key in REQUIRED_KEYS.get(str(kind), ()) if key not in data]
    if kind == "kubernetes.io/ssh-auth" and data.get("ssh-privatekey") == b"":
        missing = ["ssh-privatekey"]
    errors = [fields.required(f"data[{key}]") for key in missing]
    if kind in _OF_JSON and not missing:
        key = REQUIRED_KEYS[str(kind)][0]
        try:
            msgspec.json.decode(data[key], type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError):
            detail = "must be a JSON object"
            errors.append(fields.invalid(f"data[{key}]", "<secret contents redacted>", detail))
    return errors


def _held(
    obj: dict[str, Any], old: dict[str, Any] | None, contents: tuple[str, ...]
) -> list[FieldError]:
    """What may not change once the object is immutable."""
    if old is None or not old.get("immutable"):
        return []
    changed = [key for key in contents if (obj.get(key) or {}) != (old.get(key) or {})]
    if not obj.get("immutable"):
        changed = ["immutable", *changed]
    return [fields.forbidden(key, _IMMUTABLE) for key in changed]


def _keys(path: str, data: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in data:
        details = []
        if len(key) > _KEY_LIMIT:
            details.append(f"must be no more than {_KEY_LIMIT} characters")
        if not _is_key(key):
            details.append(_KEY_DETAIL)
        if key in (".", ".."):
            details.append(f"must not be '{key}'")
        elif key.startswith(".."):
            details.append("must not start with '..'")
        errors += [fields.invalid(f"{path}[{key}]", key, detail) for detail in details]
        if len(errors) > fields.MAX_ERRORS:
            break
    return errors


def _decoded(path: str, data: Mapping[str, str]) -> tuple[dict[str, bytes], list[FieldError]]:
    found: dict[str, bytes] = {}
    errors: list[FieldError] = []
    for key, text in data.items():
        try:
            found[key] = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            errors.append(fields.invalid(f"{path}[{key}]", "<contents>", "must be base64"))
    return found, errors
