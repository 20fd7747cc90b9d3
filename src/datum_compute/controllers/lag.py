"""How late a copy is: the age of the change of Ready that it carries.

``lastTransitionTime`` has whole seconds and comes from the clock of another plane, so the lag
is exact to a second plus the difference of the two clocks.
"""

from __future__ import annotations

from datetime import datetime

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import Conditions
from datum_compute.runtime.metrics.registry import Histogram


def observe_lag(histogram: Histogram, before: Conditions, after: Conditions, now: datetime) -> None:
    """Observe the age of a Ready that changed between two states of a copy."""
    then = conditions.find(before, compute.CONDITION_READY)
    ready = conditions.find(after, compute.CONDITION_READY)
    if ready is None or ready.last_transition_time == conditions.EPOCH:
        return
    if then is None or then.last_transition_time != ready.last_transition_time:
        histogram.observe(max(0.0, (now - ready.last_transition_time).total_seconds()))
