"""The faults of a simulated network, as rates, drawn anew for every seed.

With every fault on all the time, rare combinations never occur: some states need a quiet
network to be reached. So a seed first draws *which* kinds of fault it has, and then how strong
each one is (swarm testing).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from datum_compute.env import Environment


@dataclass(frozen=True)
class NetworkFaults:
    """Shares are of requests, unless noted; spans are in seconds."""

    lose_request: float = 0.0
    """Never arrives. The caller gets a broken connection, or a timeout."""
    lose_reply: float = 0.0
    """Has its effect, but the caller gets no reply."""
    late_request: float = 0.0
    """Arrives after its caller got a broken connection."""
    duplicate: float = 0.0
    """Arrives twice, as through a proxy that retries: updates, patches and deletes."""
    stray: float = 0.0
    """The share of writes, creates among them, of which a second copy arrives long after the
    first was answered. Its reply is dropped."""
    delay: float = 0.0
    """The longest delay of a message; drawn for each, so that they overtake one another."""
    slow: float = 0.0
    """The share of messages that take up to :data:`SLOW_SECONDS`."""
    break_stream: float = 0.0
    """The share of watch messages after which the watch breaks."""
    lag: float = 0.0
    """The most by which a watch is behind; drawn for each watch. Reads stay live."""

    def __str__(self) -> str:
        on = [f"{each.name}={getattr(self, each.name):g}" for each in fields(self)]
        return ", ".join(text for text in on if not text.endswith("=0")) or "calm"


NO_FAULTS = NetworkFaults()

SLOW_SECONDS = 20.0
LATE_SECONDS = 10.0
"""The longest delay of a late or stray request, as if buffered in a proxy."""

_SHARES = (0.005, 0.02, 0.08)
_STRENGTHS = {
    "lose_request": _SHARES,
    "lose_reply": _SHARES,
    "late_request": _SHARES,
    "duplicate": (0.02, 0.1, 0.3),
    "delay": (0.005, 0.05, 0.5),
    "slow": (0.005, 0.02),
    "break_stream": (0.005, 0.02, 0.1),
    "lag": (0.1, 1.0, 6.0),
    "stray": (0.02, 0.1, 0.3),
}


def draw_faults(env: Environment, stream: str = "weather") -> NetworkFaults:
    """Each kind of fault is on in half of all seeds, at one of its strengths."""
    chance = env.random(stream)
    drawn = {
        kind: chance.choice(strengths)
        for kind, strengths in _STRENGTHS.items()
        if chance.random() < 0.5
    }
    return NetworkFaults(**drawn)
