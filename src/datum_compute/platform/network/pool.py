"""Which range a subnet gets: the /20s of 10.128.0.0/9, without overlap inside a network.

Three cities have the ranges the real system fixes for them; their ranges are kept free for
them in every network. Any other city gets the lowest range that nothing of the network
overlaps. Networks are separate worlds: the same range may be in use in two of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network

POOL = IPv4Network("10.128.0.0/9")
PREFIX_LENGTH = 20

FIXED = {
    "DFW": IPv4Network("10.128.0.0/20"),
    "DLS": IPv4Network("10.130.0.0/20"),
    "LHR": IPv4Network("10.132.0.0/20"),
}


def decide_range(city: str, taken: Iterable[IPv4Network]) -> IPv4Network | None:
    """The range for one more subnet in this city, or None when the pool is exhausted."""
    used = sorted(set(taken))
    fixed = FIXED.get(city.upper())
    if fixed is not None and not _overlaps(fixed, used):
        return fixed
    blocked = [*used, *FIXED.values()]
    return next(
        (free for free in POOL.subnets(new_prefix=PREFIX_LENGTH) if not _overlaps(free, blocked)),
        None,
    )


def parse_range(start_address: str, prefix_length: int) -> IPv4Network | None:
    """A range as objects write it; None when there is none, or none that makes sense."""
    try:
        start = IPv4Address(start_address)
        return IPv4Network((start, prefix_length))
    except ValueError:
        return None


def _overlaps(candidate: IPv4Network, used: Iterable[IPv4Network]) -> bool:
    return any(candidate.overlaps(other) for other in used)
