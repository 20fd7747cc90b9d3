"""Where an Instance is reached: its address on the engine's network, and its own of loopback.

An Instance gets both with its first container, whose labels hold them; a later run of the platform
adopts them from there.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network

from datum_compute.decisions import sleep
from datum_compute.providers.addresses import SubnetAddresses
from datum_compute.providers.container import spec
from datum_compute.providers.container.networks import EngineNetworks
from datum_compute.providers.interfaces import InterfaceAddresses
from datum_compute.providers.protocol import InstanceTarget
from datum_compute.providers.sandbox import sandbox_of
from datum_compute.runtime.controller import Read
from datum_compute.runtime.fleet import Fleet

LOOPBACK = IPv4Network("127.64.0.0/10")
LOOPBACK_PREFIX = 20
"""Each cell of each platform takes its addresses from a range of its own."""


class Attachments:
    """The addresses of one cell's Instances."""

    def __init__(self, cell: Fleet, networks: EngineNetworks | None, loopback: IPv4Network) -> None:
        """Without ``networks`` no Instance has an address on one."""
        self._interfaces = InterfaceAddresses(cell)
        self._networks = networks
        self._loopback = SubnetAddresses(loopback)

    def reads(self) -> Sequence[Read]:
        return self._interfaces.reads() if self._networks is not None else ()

    async def ensure(self, target: InstanceTarget) -> spec.Attachment:
        """The network exists when this returns. Raises ``NotReady`` and
        ``InsufficientCapacity``."""
        network, network_ip = "", ""
        if self._networks is not None:
            for interface in self._interfaces.ensure(target)[:1]:
                if interface.subnet is not None and interface.range is not None:
                    network = await self._networks.ensure(
                        interface.subnet.namespace, interface.subnet.name, interface.range
                    )
                    network_ip = interface.address
        ports = [port for each in sandbox_of(target).containers for port in each.ports]
        external = bool(ports) and sys.platform == "linux"
        external_ip = self._loopback.ensure((target.uid, 0)) if external else ""
        activated = (
            sleep.find_policy(target.instance.metadata.annotations) is not None
            and bool(network_ip and external_ip)
            and all(port.protocol == "TCP" for port in ports)
        )
        return spec.Attachment(network, network_ip, external_ip, activated)

    def adopt(self, uid: str, labels: Mapping[str, str]) -> spec.Attachment:
        """The addresses that a container of an earlier run of the platform has."""
        attachment = spec.Attachment(
            str(labels.get(spec.LABEL_NETWORK) or ""),
            str(labels.get(spec.LABEL_NETWORK_IP) or ""),
            str(labels.get(spec.LABEL_EXTERNAL_IP) or ""),
            labels.get(spec.LABEL_ACTIVATED) == "true",
        )
        if attachment.external_ip:
            self._loopback.adopt([((uid, 0), attachment.external_ip)])
        return attachment

    def leave_network(self, uid: str) -> None:
        """Leave the address on the network to whoever else has it."""
        self._interfaces.leave(uid)

    def leave_loopback(self, uid: str) -> None:
        self._loopback.leave(uid)

    def release(self, uid: str) -> None:
        self._interfaces.release(uid)
        self._loopback.release(uid)


def loopback_range(platform: str, cell: str) -> IPv4Network:
    """Where the loopback addresses of a cell begin."""
    digest = hashlib.sha256(f"{platform}/{cell}".encode()).digest()
    slots = 2 ** (LOOPBACK_PREFIX - LOOPBACK.prefixlen)
    slot = int.from_bytes(digest[:4], "big") % slots
    start = int(LOOPBACK.network_address) + slot * 2 ** (32 - LOOPBACK_PREFIX)
    return IPv4Network((start, LOOPBACK_PREFIX))
