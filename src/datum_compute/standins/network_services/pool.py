"""Which range a subnet gets: the /20s of 10.128.0.0/9, without overlap inside a network.

Three cities have ranges fixed by the real system, which are kept free for them in every
network. Any other city gets the lowest range that overlaps no other of the network. Networks
are separate: two of them may use the same range.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network

POOL = IPv4Network("10.128.0.0/9")
PREFIX_LENGTH = 20

_SLOT_SIZE = 2 ** (32 - PREFIX_LENGTH)
_SLOTS = POOL.num_addresses // _SLOT_SIZE

FIXED = {
    "DFW": IPv4Network("10.128.0.0/20"),
    "DLS": IPv4Network("10.130.0.0/20"),
    "LHR": IPv4Network("10.132.0.0/20"),
}


def decide_range(city: str, taken: Iterable[IPv4Network]) -> IPv4Network | None:
    """The range for one more subnet in this city, or None when the pool is exhausted."""
    used = set(taken)
    fixed = FIXED.get(city.upper())
    if fixed is not None and not any(fixed.overlaps(other) for other in used):
        return fixed
    blocked = {slot for other in (*used, *FIXED.values()) for slot in _slots(other)}
    free = next((slot for slot in range(_SLOTS) if slot not in blocked), None)
    if free is None:
        return None
    start = int(POOL.network_address) + free * _SLOT_SIZE
    return IPv4Network((start, PREFIX_LENGTH))


def _slots(other: IPv4Network) -> range:
    """The slots of the pool, counted from its start, that a range overlaps."""
    base = int(POOL.network_address)
    first = (int(other.network_address) - base) // _SLOT_SIZE
    last = (int(other.broadcast_address) - base) // _SLOT_SIZE
    return range(max(first, 0), min(last, _SLOTS - 1) + 1)


def parse_range(start_address: str, prefix_length: int) -> IPv4Network | None:
    """A range as objects write it; None where it is not an IPv4 range."""
    try:
        start = IPv4Address(start_address)
        return IPv4Network((start, prefix_length))
    except ValueError:
        return None
