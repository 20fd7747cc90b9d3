"""The engine's networks: one for each Subnet of the cell, with the Subnet's own range.

Creating the network claims the range on this machine: an engine refuses a second network whose
range overlaps, so of two platforms that choose the same range at the same moment one has to take
another. That happens before the Subnet is created, and the network is removed after the Subnet is
deleted. The name is derived from platform, cell and Subnet, so it is found again after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

from datum_compute.providers.container.engine import ContainerEngine, EngineRefused, Json
from datum_compute.providers.container.failures import is_name_taken, is_range_taken, one_line
from datum_compute.providers.container.spec import LABEL_SUBNET, platform_labels
from datum_compute.providers.errors import InsufficientCapacity, NotReady

ROUTES = "/proc/net/route"


class EngineNetworks:
    """The networks of one cell of a platform."""

    def __init__(self, engine: Callable[[], ContainerEngine], platform: str, cell: str) -> None:
        self._engine = engine
        self._platform = platform
        self._cell = cell
        self._lock = asyncio.Lock()
        self._made: set[str] = set()

    async def ensure(self, namespace: str, subnet: str, range_: IPv4Network) -> str:
        """The name of the network for this Subnet, which exists when this returns."""
        name = self.name(namespace, subnet)
        async with self._lock:
            if name not in self._made:
                try:
                    claimed = await self.claim(namespace, subnet, range_)
                except EngineRefused as error:
                    raise NotReady(
                        f"the container engine refuses network {name}: {one_line(error.message)}",
                        delay=10.0,
                    ) from error
                if not claimed:
                    raise InsufficientCapacity(
                        f"range {range_} of the network is used by something else on this machine"
                    )
                self._made.add(name)
        return name

    async def claim(self, namespace: str, subnet: str, range_: IPv4Network) -> bool:
        """Whether the network of this Subnet exists with this range; False where something else
        on the machine has it."""
        name = self.name(namespace, subnet)
        for known in await self._engine().networks():
            if known.get("Name") == name:
                if ranges_of(known) == [range_]:
                    return True
                await self._engine().remove_network(name)  # of an earlier Subnet of this name
        body = {
            "Name": name,
            "Driver": "bridge",
            "CheckDuplicate": True,
            "Labels": {
                **platform_labels(self._platform, self._cell),
                LABEL_SUBNET: f"{namespace}/{subnet}",
            },
            "IPAM": {"Config": [{"Subnet": str(range_), "Gateway": str(range_[1])}]},
        }
        try:
            await self._engine().create_network(body)
        except EngineRefused as error:
            if is_range_taken(error):
                return False
            if not is_name_taken(error):
                raise
        return True

    async def remove(self, namespace: str, subnet: str) -> None:
        """Raises ``EngineRefused`` while a container is on it."""
        name = self.name(namespace, subnet)
        async with self._lock:
            self._made.discard(name)
            await self._engine().remove_network(name)

    async def subnets(self) -> set[tuple[str, str]]:
        """Namespace and name of the Subnets whose network exists."""
        own = platform_labels(self._platform, self._cell)
        found = set()
        for network in await self._engine().networks():
            labels = network.get("Labels") or {}
            if own.items() <= labels.items() and labels.get(LABEL_SUBNET):
                namespace, _, name = str(labels[LABEL_SUBNET]).partition("/")
                found.add((namespace, name))
        return found

    def recheck(self, name: str) -> None:
        """The engine does not know the network any more."""
        self._made.discard(name)

    def name(self, namespace: str, subnet: str) -> str:
        text = f"{self._platform}/{self._cell}/{namespace}/{subnet}"
        return f"datum-{self._cell}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


async def occupied_ranges(engine: ContainerEngine, routes: str) -> list[IPv4Network]:
    """The ranges on this machine that a new network must not overlap; ``routes`` is the content
    of /proc/net/route."""
    found = parse_routes(routes)
    for network in await engine.networks():
        found += ranges_of(network)
    return found


def parse_routes(text: str) -> list[IPv4Network]:
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or fields[1] == "00000000":
            continue  # the default route
        address = int.from_bytes(bytes.fromhex(fields[1]), "little")
        mask = int.from_bytes(bytes.fromhex(fields[7]), "little")
        found.append(IPv4Network((address, mask.bit_count())))
    return found


def ranges_of(network: Json) -> list[IPv4Network]:
    """Of a network as the engine describes it."""
    return [
        range_
        for config in ((network.get("IPAM") or {}).get("Config")) or []
        for range_ in _range(config)
    ]


def _range(config: dict[str, Any]) -> list[IPv4Network]:
    try:
        return [IPv4Network(str(config.get("Subnet") or ""), strict=False)]
    except ValueError:
        return []  # of IPv6, or none
