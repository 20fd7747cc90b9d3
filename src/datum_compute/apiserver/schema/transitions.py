"""What may not change once it is set: the one form of CEL rule that the server runs.

A rule ``self == oldSelf`` compares a value with the one it replaces. As in the real server it
does not apply while either of them is absent, so a field may be set for the first time, and
removed where its schema allows that. Inside lists and maps, where it would have to be known
which entry was which, and in any other form, a rule is stored but not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from datum_compute.api import fields
from datum_compute.api.fields import FieldError
from datum_compute.apiserver.schema.outcome import ValidationRule

_TYPES = ((bool, "boolean"), (str, "string"), (int, "integer"), (dict, "object"), (list, "array"))
_ABSENT = object()


def validate_transitions(
    rules: Iterable[ValidationRule], old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[FieldError]:
    """Where the new object breaks a rule that the old one sets."""
    faults = []
    for rule in rules:
        if "".join(rule.source.get("rule", "").split()) != "self==oldSelf":
            continue
        if len(rule.place.pieces) > 1:
            continue
        path = rule.place.pieces[0]
        before, now = _at(old, path), _at(new, path)
        if before is not _ABSENT and now is not _ABSENT and before != now:
            message = rule.source.get("message") or "failed rule: self == oldSelf"
            faults.append(fields.invalid(path, _type_name(now), message))
    return faults


def _at(obj: Mapping[str, Any], path: str) -> Any:
    value: Any = obj
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return _ABSENT
        value = value[name]
    return value


def _type_name(value: Any) -> str:
    """As the real server, which gives the type in place of the value."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "number")
