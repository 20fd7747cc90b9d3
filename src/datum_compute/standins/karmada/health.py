"""Whether a member counts as ready: a probe that changed its mind must insist for a while.

A member is probed again and again. The first answer about a member is believed at once,
and so is the first good answer of one that was never ready. After that a change of mind
counts only when it has lasted: 30 s of failure make a ready member not ready, 30 s of
success bring it back. In between it stays what it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

PROBE_SECONDS = 10.0
"""Karmada's ``--cluster-status-update-frequency``."""
THRESHOLD_SECONDS = 30.0
"""Karmada's failure threshold and its success threshold."""


@dataclass(frozen=True, slots=True)
class Health:
    """What is held about one member, from probe to probe."""

    ready: bool
    """What counts."""
    observed: bool
    """What the last probe said."""
    since: float
    """The loop's time at which probes began to say so."""
    ever_ready: bool


def decide_health(before: Health | None, *, good: bool, at: float) -> Health:
    """The health after one more probe."""
    if before is None or (good and not before.ever_ready):
        return Health(ready=good, observed=good, since=at, ever_ready=good)
    since = before.since if good == before.observed else at
    lasted = at - since >= THRESHOLD_SECONDS
    ready = good if good == before.ready or lasted else before.ready
    return replace(before, ready=ready, observed=good, since=since)
