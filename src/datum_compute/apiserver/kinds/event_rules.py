"""Rules of Events beyond their schema, as they are stored.

An Event with an ``eventTime`` says who reports it and what was done. One that is written in the
group events.k8s.io must have that time, and of its fields only the series may change. Faults are
named after the core fields in either group, except that of the controller, as upstream.
"""

from __future__ import annotations

import re
from typing import Any

from datum_compute.api import fields, name_patterns
from datum_compute.api.fields import FieldError
from datum_compute.apiserver.kinds import wire_times

_is_subdomain = re.compile(name_patterns.DNS_SUBDOMAIN).fullmatch
_is_qualified = re.compile(name_patterns.QUALIFIED_NAME).fullmatch
_TEXT_LIMIT = 128
_MESSAGE_LIMIT = 1024
_ANYWHERE = ("default", "kube-system")
"""Where Events about objects without a namespace may be."""


def normalize(obj: dict[str, Any]) -> list[FieldError]:
    """Its times in one form, and no count of zero."""
    if obj.get("count") == 0:
        del obj["count"]
    errors = wire_times.normalize(
        obj, "", seconds=("firstTimestamp", "lastTimestamp"), micros=("eventTime",)
    )
    return errors + wire_times.normalize(obj.get("series"), "series.", micros=("lastObservedTime",))


def validate(obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    """Of an Event of the core group whose fields have their types."""
    return _common(obj, "reportingComponent")


def validate_renamed(obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    """Of an Event that is written in the group events.k8s.io."""
    errors = _common(obj, "reportingController")
    if old is not None:
        if obj.get("series") != old.get("series"):
            errors += _series(obj)
        changed = [key for key in _FIXED if (obj.get(key) or None) != (old.get(key) or None)]
        return errors + [
            fields.invalid(_FIXED[key], obj.get(key), "field is immutable") for key in changed
        ]
    name = obj["metadata"]["name"]
    if not _is_subdomain(name) or len(name) > name_patterns.SUBDOMAIN_LIMIT:
        detail = "a lowercase RFC 1123 subdomain is required"
        errors.append(fields.invalid("metadata.name", name, detail))
    errors += _series(obj)
    if "eventTime" not in obj:
        errors.append(fields.required("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        detail = f"has invalid value: {obj.get('type', '')}"
        errors.append(fields.invalid("type", "", detail))
    return errors + [fields.invalid(key, "", "needs to be unset") for key in _OLD if obj.get(key)]


_OLD = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED = {
    key: key
    for key in (
        "involvedObject",
        "reason",
        "message",
        *_OLD,
        "reportingInstance",
        "type",
        "action",
        "related",
        "eventTime",
    )
} | {"reportingComponent": "reportingController"}


def _common(obj: dict[str, Any], controller_field: str) -> list[FieldError]:
    about = (obj.get("involvedObject") or {}).get("namespace") or ""
    namespace = obj["metadata"].get("namespace", "")
    elsewhere = fields.invalid("involvedObject.namespace", about, "does not match event.namespace")
    if "eventTime" not in obj:
        return [] if namespace == (about or "default") else [elsewhere]
    errors = [] if about or namespace in _ANYWHERE else [elsewhere]
    errors += _controller(controller_field, obj.get("reportingComponent") or "")
    for key in ("reportingInstance", "action", "reason"):
        text = obj.get(key) or ""
        if not text:
            errors.append(fields.required(key))
        elif len(text.encode()) > _TEXT_LIMIT:
            errors.append(_too_long(key, _TEXT_LIMIT))
    if len((obj.get("message") or "").encode()) > _MESSAGE_LIMIT:
        errors.append(_too_long("message", _MESSAGE_LIMIT))
    return errors


def _too_long(key: str, limit: int) -> FieldError:
    return fields.invalid(key, "", f"can have at most {limit} characters")


def _controller(path: str, name: str) -> list[FieldError]:
    errors = [] if name else [fields.required(path)]
    prefix, slash, last = name.rpartition("/")
    is_named = len(last) <= name_patterns.LABEL_LIMIT and _is_qualified(last)
    if not is_named or (slash and not _is_subdomain(prefix)):
        detail = "must be a qualified name, such as 'example.com/my-controller'"
        errors.append(fields.invalid(path, name, detail))
    return errors


def _series(obj: dict[str, Any]) -> list[FieldError]:
    if (series := obj.get("series")) is None:
        return []
    errors: list[FieldError] = []
    if (series.get("count") or 0) < 2:
        errors.append(fields.invalid("series.count", "", "should be at least 2"))
    if "lastObservedTime" not in series:
        errors.append(fields.required("series.lastObservedTime"))
    return errors
