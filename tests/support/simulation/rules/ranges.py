"""Ranges of networks, and addresses of Instances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network

from tests.support.simulation.commits import Change, CommittedPlanes, Values, is_deleting, status_of


@dataclass
class RangeRules:
    """No range and no address of a network is used twice."""

    _shared: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By cell, namespace and address: since when more than one Instance has it. A write of a
    crashed provider may arrive late; the next reconcile corrects it."""

    def check(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        if change.kind == "subnets" and change.new is not None and change.old is None:
            yield from self._see_subnet(planes, change, change.new)
        if change.kind == "instances" and change.is_in_cell:
            self._see_addresses(planes, change)
        for key, since in sorted(self._shared.items()):
            if since < change.time - planes.grace:
                del self._shared[key]
                yield f"two Instances in {key[1]} on {key[0]} have had {key[2]} since {since}"

    def _see_subnet(self, planes: CommittedPlanes, change: Change, new: Values) -> Iterator[str]:
        mine = _range(new)
        for cell in planes.cells():
            for each in planes.all(cell, "subnets", change.namespace):
                if (
                    each is not new
                    and _network(each) == _network(new)
                    and mine.overlaps(_range(each))
                ):
                    yield f"{change} has {mine}, as {each['metadata']['name']} on {cell} has"

    def _see_addresses(self, planes: CommittedPlanes, change: Change) -> None:
        holders: defaultdict[str, int] = defaultdict(int)
        for each in planes.all(change.plane, "instances", change.namespace):
            for address in _addresses(each) if not is_deleting(each) else ():
                holders[address] += 1
        place = (change.plane, change.namespace)
        shared = {(*place, address) for address, count in holders.items() if count > 1}
        for key in [key for key in self._shared if key[:2] == place and key not in shared]:
            del self._shared[key]
        for key in sorted(shared):
            self._shared.setdefault(key, change.time)


def _range(subnet: Values) -> IPv4Network:
    spec = subnet["spec"]
    return IPv4Network(f"{spec['startAddress']}/{spec['prefixLength']}")


def _network(subnet: Values) -> str:
    """Contexts are named after network and location, so the network is the same in all cells."""
    context: str = subnet["spec"]["networkContext"]["name"]
    return context.removesuffix(subnet["spec"]["location"]["name"])


def _addresses(instance: Values) -> list[str]:
    found = status_of(instance).get("networkInterfaces") or []
    return [ip for each in found if (ip := (each.get("assignments") or {}).get("networkIP"))]
