"""Restarts: an annotation on the template that holds a time.

A restart of the whole workload and a restart of one city are written in two places. The
later one counts, so that neither undoes the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from datum_compute.api.compute import constants

_END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC)


def parse_restart(text: str | None) -> datetime | None:
    """The time of a restart; an invalid value counts as none, and so does the end of the
    calendar, after which no later restart would be possible."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo and moment < _END_OF_TIME else None


def later_restart(workload: str | None, deployment: str | None) -> str | None:
    """Which of the two values the deployment's template carries."""
    wanted, current = parse_restart(workload), parse_restart(deployment)
    if current is not None and (wanted is None or current > wanted):
        return deployment
    return workload


def next_restart(now: datetime, existing: str | None) -> str:
    """A value later than ``existing``, whichever clock wrote that."""
    last = parse_restart(existing)
    moment = now if last is None else max(now, last + timedelta(seconds=1))
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def keep_restart(template: Mapping[str, Any], present: Any) -> Mapping[str, Any]:
    """The template with the later restart of the two; the very one where that is its own. The
    present one may be anything."""
    own = _restarted_at(template)
    restart = later_restart(own, _restarted_at(present))
    if restart == own:
        return template
    metadata = _object(template.get("metadata"))
    annotations = _object(metadata.get("annotations"))
    annotations = {**annotations, constants.ANNOTATION_RESTARTED_AT: restart}
    return {**template, "metadata": {**metadata, "annotations": annotations}}


def _restarted_at(template: Any) -> str:
    annotations = _object(_object(_object(template).get("metadata")).get("annotations"))
    value = annotations.get(constants.ANNOTATION_RESTARTED_AT, "")
    return value if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any]:
    """The value, if it is a JSON object: of a spec that was changed by hand it may be anything."""
    return value if isinstance(value, dict) else {}
