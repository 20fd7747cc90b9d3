"""Times of built-in kinds as Go's types read and write them: in UTC, to the second or the
microsecond. Custom resources keep a time as it was given."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from datum_compute.api import fields
from datum_compute.api.fields import FieldError

_read = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
).fullmatch
_MICRO_DIGITS = 6
_NEVER = datetime.min.replace(tzinfo=UTC)
"""Go's zero time, which is written as null."""


def normalize(
    held: Any, at: str, *, seconds: Iterable[str] = (), micros: Iterable[str] = ()
) -> list[FieldError]:
    """Rewrite the times of an object in place; one that says never is dropped. What is no text is
    left to the schema. ``at`` is the object's own path, with a dot at its end."""
    errors: list[FieldError] = []
    if not isinstance(held, dict):
        return errors
    for names, is_micro in ((seconds, False), (micros, True)):
        for name in names:
            if not isinstance(given := held.get(name), str):
                continue
            moment = _moment(given, is_micro=is_micro)
            if moment is None:
                form = "2006-01-02T15:04:05" + (".000000" if is_micro else "") + "Z07:00"
                detail = f'parsing time {given!r} as "{form}": cannot parse it'
                errors.append(fields.type_invalid(at + name, given, detail))
            elif moment == _NEVER:
                del held[name]
            else:
                held[name] = _written(moment, is_micro=is_micro)
    return errors


def _moment(text: str, *, is_micro: bool) -> datetime | None:
    if len(text) > _MAX_TEXT or (found := _read(text)) is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, sign, hours, minutes = found.groups()[6:]
    if is_micro and len(fraction or "") != _MICRO_DIGITS:
        return None
    away = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    micros = int(fraction) if is_micro else 0
    try:
        zone = timezone(-away if sign == "-" else away)
        moment = datetime(year, month, day, hour, minute, second, micros, zone)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


_MAX_TEXT = 64
"""Longer than any time with nanoseconds."""


def _written(moment: datetime, *, is_micro: bool) -> str:
    precision = "microseconds" if is_micro else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"
