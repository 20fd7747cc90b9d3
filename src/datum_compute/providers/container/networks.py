"""The engine's networks: one for each subnet of the cell, with the subnet's own range.

A network is created with the first Instance on its subnet and removed with the last. The name
is derived from the platform and the key of the subnet, so it is found again after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

from datum_compute.log import get_logger
from datum_compute.providers.container.engine import ContainerEngine, EngineRefused
from datum_compute.providers.container.failures import is_name_taken, is_range_taken, one_line
from datum_compute.providers.container.spec import platform_labels
from datum_compute.providers.errors import InsufficientCapacity, NotReady
from datum_compute.providers.subnets import SubnetKey

logger = get_logger(__name__)

ROUTES = "/proc/net/route"


class EngineNetworks:
    def __init__(self, engine: Callable[[], ContainerEngine], platform: str, cell: str) -> None:
        self._engine = engine
        self._platform = platform
        self._cell = cell
        self._lock = asyncio.Lock()
        self._users: dict[str, set[str]] = {}
        """Uids of the Instances on a network, by its name."""
        self._made: set[str] = set()

    async def ensure(self, key: SubnetKey, range_: IPv4Network, uid: str) -> str:
        """The name of the network for this subnet, which exists when this returns."""
        name = self.name(key)
        async with self._lock:
            self._users.setdefault(name, set()).add(uid)
            if name not in self._made:
                await self._create(name, range_)
                self._made.add(name)
        return name

    def adopt(self, name: str, uid: str) -> None:
        """An Instance of an earlier run of the platform is on this network."""
        self._users.setdefault(name, set()).add(uid)

    def recheck(self, name: str) -> None:
        """The engine does not know the network any more."""
        self._made.discard(name)

    async def release(self, uid: str) -> None:
        """Remove the networks that no Instance is on after this one has left."""
        async with self._lock:
            for name in [name for name, users in self._users.items() if uid in users]:
                users = self._users[name]
                if len(users) == 1:
                    await self._remove(name)
                    del self._users[name]
                    self._made.discard(name)
                else:
                    users.discard(uid)

    def name(self, key: SubnetKey) -> str:
        text = f"{self._platform}/{key.cluster}/{key.namespace}/{key.name}"
        return f"datum-{self._cell}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    async def _create(self, name: str, range_: IPv4Network) -> None:
        known = {str(each.get("Name")) for each in await self._engine().networks()}
        if name in known:
            return
        body = {
            "Name": name,
            "Driver": "bridge",
            "CheckDuplicate": True,
            "Labels": platform_labels(self._platform, self._cell),
            "IPAM": {"Config": [{"Subnet": str(range_), "Gateway": str(range_[1])}]},
        }
        try:
            await self._engine().create_network(body)
        except EngineRefused as error:
            if is_range_taken(error):
                raise InsufficientCapacity(
                    f"range {range_} of the network is used by something else on this machine:"
                    f" {one_line(error.message)}"
                ) from error
            if not is_name_taken(error):
                raise NotReady(
                    f"the container engine refuses network {name}: {one_line(error.message)}",
                    delay=10.0,
                ) from error

    async def _remove(self, name: str) -> None:
        try:
            await self._engine().remove_network(name)
        except EngineRefused as error:
            # Another container is on it: the network goes with the last one.
            logger.debug("network kept", network=name, error=one_line(error.message))


async def occupied_ranges(engine: ContainerEngine, routes: str) -> list[IPv4Network]:
    """The ranges on this machine that a new network must not overlap; ``routes`` is the content
    of /proc/net/route."""
    found = parse_routes(routes)
    for network in await engine.networks():
        for config in ((network.get("IPAM") or {}).get("Config")) or []:
            found += _range(config)
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


def _range(config: dict[str, Any]) -> list[IPv4Network]:
    try:
        return [IPv4Network(str(config.get("Subnet") or ""), strict=False)]
    except ValueError:
        return []  # of IPv6, or none
