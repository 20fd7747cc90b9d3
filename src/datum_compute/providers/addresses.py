"""Which address of a subnet belongs to which Instance.

Assigned addresses are kept in memory, and the frame writes them into the Instance's status; after
a restart they are read back from there before any address is assigned. So the Instances are the
record, and this is only an index of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

from datum_compute.providers.errors import InsufficientCapacity

FIRST_OFFSET = 2
"""The subnet's own address and its gateway come first."""

Holder = tuple[str, int]
"""The uid of an Instance, and which of its interfaces."""


@dataclass
class SubnetAddresses:
    """The addresses of one subnet."""

    network: IPv4Network
    _holders: dict[int, Holder] = field(default_factory=dict)
    _offsets: dict[Holder, int] = field(default_factory=dict)
    _lowest: int = FIRST_OFFSET
    """No offset below this one is free."""

    def adopt(self, assigned: Iterable[tuple[Holder, str]]) -> None:
        """Adopt the addresses that Instances report; those outside the subnet are ignored."""
        for holder, text in assigned:
            try:
                address = IPv4Address(text)
            except ValueError:
                continue  # written by hand, or by a provider with addresses of another form
            offset = int(address) - int(self.network.network_address)
            if address in self.network and offset not in self._holders:
                self._take(holder, offset)

    def ensure(self, holder: Holder) -> str:
        """The address of this interface: the one it has, or the lowest that is free."""
        offset = self._offsets.get(holder)
        if offset is None:
            offset = self._next_free()
            self._take(holder, offset)
        return str(self.network.network_address + offset)

    def release(self, uid: str) -> None:
        """Free the addresses of an Instance, if it has any."""
        for holder in sorted(holder for holder in self._offsets if holder[0] == uid):
            offset = self._offsets.pop(holder)
            del self._holders[offset]
            self._lowest = min(self._lowest, offset)

    def leave(self, uid: str) -> None:
        """Give an Instance other addresses: something else has those it has."""
        for holder in sorted(holder for holder in self._offsets if holder[0] == uid):
            offset = self._offsets.pop(holder)
            self._take((f"taken {offset}", 0), offset)

    def _take(self, holder: Holder, offset: int) -> None:
        self._holders[offset] = holder
        self._offsets[holder] = offset

    def _next_free(self) -> int:
        end = self.network.num_addresses - 1  # the last one is the broadcast address
        while self._lowest in self._holders:
            self._lowest += 1
        if self._lowest >= end:
            raise InsufficientCapacity(f"subnet {self.network} has no free address left")
        return self._lowest
