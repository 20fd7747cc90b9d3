"""The columns of ``kubectl get``: values from a JSON path, ages, and the few of built-in kinds
that no path can express."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from datum_compute.apiserver.kinds import jsonpath

JsonObject = Mapping[str, Any]
ColumnValue = Callable[[JsonObject, datetime], Any]
"""The value of a column for an object at a time; None prints as nothing."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of ``kubectl get``."""

    name: str
    type: str
    """integer, number, string, boolean or date."""
    json_path: str
    priority: int = 0
    """Above 0: shown only with ``-o wide``."""
    format: str = ""
    description: str = ""
    computed: ColumnValue | None = None
    """The value where no path gives it; ``json_path`` is empty then."""

    def value(self) -> ColumnValue:
        return self.computed or from_path(self.json_path, self.type)


NAME = TableColumn(
    "Name",
    "string",
    ".metadata.name",
    format="name",
    description="Unique among the objects of this kind in its namespace.",
)
AGE = TableColumn(
    "Age", "date", ".metadata.creationTimestamp", description="Time since the object was created."
)


def _age_of(obj: JsonObject, now: datetime) -> Any:
    return age(_at(obj, "metadata", "creationTimestamp"), now) or "<unknown>"


BUILTIN_AGE = TableColumn("Age", "string", "", computed=_age_of)
"""Of built-in kinds, whose ages are texts."""


def human_duration(duration: timedelta) -> str:
    """As kubectl prints ages: coarser the longer, ``47s``, ``3m5s``, ``12m``, ``3h5m``."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        # A clock slightly ahead of ours is common; further ahead, something is wrong.
        return "0s" if seconds >= -1 else "<invalid>"
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = f"{small}{small_unit}" if small else ""
    return f"{large}{large_unit}{rest}"


def age(timestamp: Any, now: datetime) -> str | None:
    """The human age of an RFC 3339 time; None for none, ``<invalid>`` for anything else."""
    if timestamp is None:
        return None
    if not isinstance(timestamp, str):
        return "<invalid>"
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return "<invalid>"
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return human_duration(now - then)


def from_path(path: str, column_type: str) -> ColumnValue:
    """The value of a declared column. Raises ValueError for an invalid path."""
    find = jsonpath.compile_path(path)

    def value(obj: JsonObject, now: datetime) -> Any:
        found = find(obj)
        if not found or found[0] is None:
            return None
        if column_type == "string":
            return " ".join(map(_printed, found))
        if column_type == "date":
            return age(found[0], now)
        return _of_type(column_type, found[0])

    return value


def _of_type(column_type: str, value: Any) -> Any:
    """A value of another type than the column's is left out."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if column_type == "integer":
        return int(value) if is_number else None
    if column_type == "number":
        return value if is_number else None
    return value if isinstance(value, bool) else None


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _at(obj: JsonObject, *names: str) -> Any:
    value: Any = obj
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def count(*fields: str) -> ColumnValue:
    """How many entries the named fields hold together."""
    return lambda obj, now: sum(len(obj.get(name) or ()) for name in fields)


def text(*steps: str) -> ColumnValue:
    """A text, empty where the object has none."""
    return lambda obj, now: _at(obj, *steps) or ""


def created_at(obj: JsonObject, now: datetime) -> Any:
    """The time itself, as kubectl shows it for definitions."""
    return _at(obj, "metadata", "creationTimestamp")


def event_last_seen(obj: JsonObject, now: datetime) -> Any:
    seen = (
        _at(obj, "series", "lastObservedTime")
        or obj.get("lastTimestamp")
        or obj.get("eventTime")
        or obj.get("firstTimestamp")
    )
    return age(seen, now) or "<unknown>"


def event_first_seen(obj: JsonObject, now: datetime) -> Any:
    return age(obj.get("firstTimestamp") or obj.get("eventTime"), now) or "<unknown>"


def event_object(obj: JsonObject, now: datetime) -> Any:
    kind, name = _at(obj, "involvedObject", "kind"), _at(obj, "involvedObject", "name")
    return f"{(kind or '').lower()}/{name or ''}"


def event_source(obj: JsonObject, now: datetime) -> Any:
    component = _at(obj, "source", "component") or obj.get("reportingComponent") or ""
    host = _at(obj, "source", "host")
    return f"{component}, {host}" if host else component


def event_count(obj: JsonObject, now: datetime) -> Any:
    return _at(obj, "series", "count") or obj.get("count") or 1


def event_message(obj: JsonObject, now: datetime) -> Any:
    return (obj.get("message") or "").strip()
