"""Replication lag: how long a change of Ready takes to reach a copy on another plane.

``lastTransitionTime`` has whole seconds and comes from the clock of the other plane, so the lag
is accurate to one second plus the skew between the two clocks.
"""

from __future__ import annotations

from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Conditions
from datum_compute.runtime.metrics.registry import Histogram


def observe_lag(histogram: Histogram, before: Conditions, after: Conditions, now: datetime) -> None:
    """Record the age of the Ready transition that this write brings to the copy, if any."""
    then = conditions.find(before, compute.CONDITION_READY)
    ready = conditions.find(after, compute.CONDITION_READY)
    if ready is None or ready.last_transition_time == conditions.EPOCH:
        return
    if then is None or then.last_transition_time != ready.last_transition_time:
        histogram.observe(max(0.0, (now - ready.last_transition_time).total_seconds()))
