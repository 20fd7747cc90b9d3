"""What the Workload controller records on a project's deployment, as annotations.

``rollout-state`` is written together with the template. It is all that is remembered of a rollout:
conditions and counters may be lost at any time, and their times are no measure of a soak.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from datum_compute.api.compute import v1alpha as compute

LARGEST_TEMPLATE = 224 * 1024
"""Bytes of a template that can be kept as the last good one. All annotations of an object may
have 256 KiB together; the rest is for the others."""


class RolloutOutcome(StrEnum):
    OPEN = ""
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class RolloutState:
    hash: str
    """Of the Workload's template that this is about."""
    generation: int
    """The Workload's when this template was first seen."""
    opened_at: datetime
    """When the deployment got the template, or last stopped being ready: the timeout runs since
    then. Times are for people; :class:`RolloutAges` measures."""
    ready_since: datetime | None = None
    outcome: RolloutOutcome = RolloutOutcome.OPEN
    cause: str = ""
    """Why it has failed or was undone."""
    transition: str = ""
    """When it became ready, as its cell has it. Never compared with a time of ours, only with what
    the cell reports later: another value means that it was not ready in between."""

    def to_annotation(self) -> str:
        values = {
            "hash": self.hash,
            "generation": self.generation,
            "openedAt": _text(self.opened_at),
            "readySince": _text(self.ready_since) if self.ready_since else "",
            "outcome": self.outcome.value,
            **({"cause": self.cause} if self.cause else {}),
            "transition": self.transition,
        }
        return json.dumps(values, separators=(",", ":"), ensure_ascii=False)


def find_state(annotations: Mapping[str, str]) -> RolloutState | None:
    """The state of a deployment; None where it has none that can be read."""
    values = _read(annotations.get(compute.ANNOTATION_ROLLOUT_STATE, ""))
    try:
        return RolloutState(
            hash=str(values["hash"]),
            generation=int(values["generation"]),
            opened_at=_time(values["openedAt"]),
            ready_since=_time(values["readySince"]) if values["readySince"] else None,
            outcome=RolloutOutcome(values["outcome"]),
            cause=str(values.get("cause", "")),
            transition=str(values.get("transition", "")),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


class RolloutAges:
    """For how long one process has known the times in the states of deployments.

    A wall clock may be set at any moment, and what happened while no process ran is unknown: so a
    wait lasts until one process has seen it through, by a clock that is never set. What is lost
    with the process makes waits longer, never shorter.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[tuple[str, datetime], float]] = {}
        """By uid of a workload: when each deployment was first seen with a time, in seconds."""

    def see(
        self, workload: str, deployments: Mapping[str, Mapping[str, str]], at: float
    ) -> dict[str, tuple[timedelta, timedelta]]:
        """For how long each deployment has been open, and ready; ``deployments`` are annotations
        by uid, and ``at`` is the time of the monotonic clock."""
        states = {uid: find_state(each) for uid, each in deployments.items()}
        before = self._known.get(workload, {})
        known = {
            (uid, time): before.get((uid, time), at)
            for uid, state in states.items()
            if state is not None
            for time in (state.opened_at, state.ready_since)
            if time is not None
        }

        self._known[workload] = known
        if not known:
            self.forget(workload)

        def age(uid: str, time: datetime | None) -> timedelta:
            return timedelta(seconds=at - known.get((uid, time), at)) if time else timedelta()

        return {
            uid: (age(uid, state.opened_at), age(uid, state.ready_since))
            for uid, state in states.items()
            if state is not None
        }

    def forget(self, workload: str) -> None:
        self._known.pop(workload, None)


def find_good_template(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """The last template that completed its wave in a deployment; None where it has none that can
    be read."""
    found = _read(annotations.get(compute.ANNOTATION_LAST_GOOD_TEMPLATE, ""))
    return found if found and compute.read_template(found) is not None else None


def good_template_annotation(template: Mapping[str, Any] | None) -> str | None:
    """None where there is no template, and where it is too large to be kept."""
    if template is None:
        return None
    text = template_text(template)
    return text if len(text.encode()) <= LARGEST_TEMPLATE else None


def template_text(template: Mapping[str, Any]) -> str:
    return json.dumps(template, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _read(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _text(moment: datetime) -> str:
    """With its fraction: a time cut to whole seconds would shorten a soak."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _time(text: Any) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without a zone")
    return moment
