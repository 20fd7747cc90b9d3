"""The addresses of Instances on the networks of their cell, for providers that assign them.

The Instances' statuses are the record: after a restart they are read back before any address is
assigned. An interface whose network the deployment has left keeps the address it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.providers.addresses import SubnetAddresses
from datum_compute.providers.errors import NotReady
from datum_compute.providers.protocol import InstanceTarget
from datum_compute.providers.subnets import (
    CLAIMS_BY_CONTEXT,
    SubnetKey,
    context_key_of,
    find_subnet,
    is_bound,
)
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Read
from datum_compute.runtime.fleet import Fleet


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """The address of one interface, and where it is from."""

    address: str
    subnet: SubnetKey | None = None
    """None where the deployment has left the network of the interface."""
    range: IPv4Network | None = None


class InterfaceAddresses:
    """Which address of a subnet each interface of an Instance has."""

    def __init__(self, cell: Fleet) -> None:
        self._cell = cell
        self._subnets: dict[SubnetKey, SubnetAddresses] = {}

    def reads(self) -> list[Read]:
        """The caches that must be filled before an address is assigned."""
        return [
            Read(self._cell, networking.NETWORK_BINDINGS),
            Read(self._cell, networking.SUBNET_CLAIMS, indexes={CLAIMS_BY_CONTEXT: context_key_of}),
            Read(self._cell, networking.SUBNETS),
        ]

    def ensure(self, target: InstanceTarget) -> tuple[InterfaceAddress, ...]:
        """In the order of the interfaces; empty where the cell has no networking.

        Raises ``NotReady`` while a subnet is not known, ``InsufficientCapacity`` when it is full.
        """
        cell = self._cell.get(target.cluster)
        if cell is None:
            return ()
        found = []
        for interface in range(len(target.instance.spec.network_interfaces)):
            given = present_address(target.instance, interface)
            if given and not is_bound(cell, target.instance, interface):
                found.append(InterfaceAddress(given))  # until it is replaced
                continue
            subnet = find_subnet(cell, target.instance, interface)
            if subnet is None:
                return ()
            key, network = subnet
            addresses = self._subnets.get(key)
            if addresses is None:
                addresses = self._subnets[key] = SubnetAddresses(network)
                _adopt(cell, key, addresses)
            assigned = addresses.ensure((target.uid, interface))
            found.append(InterfaceAddress(assigned, key, network))
        return tuple(found)

    def leave(self, uid: str) -> None:
        """Give it other addresses: something else has those it has."""
        for subnet in self._subnets.values():
            subnet.leave(uid)

    def release(self, uid: str) -> None:
        for subnet in self._subnets.values():
            subnet.release(uid)


def present_address(instance: compute.Instance, interface: int) -> str:
    """The present address of an interface; empty when it has none."""
    known = instance.status.network_interfaces
    return (known[interface].assignments.network_ip or "") if interface < len(known) else ""


def _adopt(cell: Cluster, key: SubnetKey, addresses: SubnetAddresses) -> None:
    """Adopt the addresses that Instances of this subnet have from before a restart."""
    for instance in views(cell.cache(compute.INSTANCES).list(), compute.Instance):
        for interface, status in enumerate(instance.status.network_interfaces):
            address = status.assignments.network_ip
            if address and _is_on(cell, instance, interface, key):
                addresses.adopt([((instance.metadata.uid, interface), address)])


def _is_on(cell: Cluster, instance: compute.Instance, interface: int, key: SubnetKey) -> bool:
    try:
        found = find_subnet(cell, instance, interface)
    except NotReady:
        return False
    return found is not None and found[0] == key
