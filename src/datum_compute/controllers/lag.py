"""How long a report was under way from the plane where it was decided.

A condition carries when it last changed, in whole seconds of the clock of whoever wrote it.
When a copy is brought up to date on a Ready that has changed, the age of that change is how
late the copy is: true to a second, and as true as the clocks of the two planes agree.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Conditions
from datum_compute.runtime.metrics.registry import Histogram


class _Status(msgspec.Struct):
    conditions: Conditions = ()


def conditions_in(status: msgspec.Raw) -> Conditions:
    """Those of a raw status; none where there is none, or one that cannot be read."""
    if not status or bytes(status) == b"null":
        return ()
    try:
        return msgspec.json.decode(status, type=_Status).conditions
    except msgspec.DecodeError:
        return ()


def observe_lag(histogram: Histogram, before: Conditions, after: Conditions, now: datetime) -> None:
    then = conditions.find(before, compute.CONDITION_READY)
    ready = conditions.find(after, compute.CONDITION_READY)
    if ready is None or ready.last_transition_time == conditions.EPOCH:
        return
    if then is None or then.last_transition_time != ready.last_transition_time:
        histogram.observe(max(0.0, (now - ready.last_transition_time).total_seconds()))
