"""What a network does to messages, as rates; and a different kind of day for every seed.

With every fault on all the time, rare combinations never occur: whatever needs quiet to get
somewhere never gets there. So a seed first draws *which* kinds of fault it has at all, and
then how strong each one is (swarm testing).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from datum_compute.env import Environment


@dataclass(frozen=True)
class NetworkFaults:
    """Shares are of requests, unless they say otherwise; spans are in seconds."""

    lose_request: float = 0.0
    """Never arrives. The caller hears of a broken connection, or nothing until it gives up."""
    lose_reply: float = 0.0
    """Was carried out, and the caller does not learn of it."""
    late_request: float = 0.0
    """Arrives after its caller was told that the connection broke."""
    duplicate: float = 0.0
    """Arrives twice, as through a proxy that tries again: updates, patches and deletes."""
    stray: float = 0.0
    """The share of writes, creates among them, of which a second copy arrives when the first
    has long been answered. Nobody hears its answer."""
    delay: float = 0.0
    """The longest way of a message; drawn for each, so that they overtake one another."""
    slow: float = 0.0
    """This share takes up to :data:`SLOW_SECONDS` on its way."""
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
"""How long a request is under way that nobody waits for any more; what a proxy buffers."""

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
    """Each kind of fault is there in half of all seeds, at one of its strengths."""
    chance = env.random(stream)
    drawn = {
        kind: chance.choice(strengths)
        for kind, strengths in _STRENGTHS.items()
        if chance.random() < 0.5
    }
    return NetworkFaults(**drawn)
