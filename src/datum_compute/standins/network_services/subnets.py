"""SubnetClaims and Subnets: each claim gets one subnet, of the same name.

The subnet is controlled by the network context, so it lives as long as the network's presence
at the location, not as long as the claim. Its range is the one the claim names, or one from
the :mod:`.pool`. Ranges of one network must not overlap in any cell, so claims are served one
at a time, against the subnets of all cells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.env import Environment
from datum_compute.providers.registry import RuntimeAway
from datum_compute.runtime.cache.quarantine import readable
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.watches.mapping import by_index
from datum_compute.runtime.watches.predicates import deleted
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions
from datum_compute.runtime.writes.create import create_owned
from datum_compute.standins.network_services import pool

CLAIMS_BY_CONTEXT = "network/claim-context"

REASON_POOL_EXHAUSTED = "PoolExhausted"
REASON_RANGE_OCCUPIED = "RangeOccupied"
REASON_RANGE_UNSUPPORTED = "RangeUnsupported"

RETRY_SECONDS = 60.0
"""Until a refused claim is tried again even if no subnet was deleted. A guess."""
AWAY_SECONDS = 2.0
"""Until a container engine that does not answer is asked again."""
NOT_SEEN_SECONDS = 0.1
"""Until the cache has a subnet that was created before. A guess."""

PROGRAMMED = (
    ConditionChange(
        networking.CONDITION_ALLOCATED,
        TRUE,
        networking.REASON_PREFIX_ALLOCATED,
        "Prefix has been allocated",
    ),
    ConditionChange(
        networking.CONDITION_PROGRAMMED,
        TRUE,
        networking.REASON_PROGRAMMED,
        "Subnet has been programmed",
    ),
)

NetworkKey = tuple[str, str]
"""Namespace and name of a network, the same in every cell."""

CellSubnetKey = tuple[str, str, str]
"""Cell, namespace and name."""


@dataclass(frozen=True, slots=True)
class MachineRanges:
    """The ranges of the machine, where networks are real and platforms share it."""

    occupied: Callable[[], Awaitable[list[IPv4Network]]]
    """Those that no new subnet may overlap."""
    claim: Callable[[str, str, str, IPv4Network], Awaitable[bool]]
    """Takes a range for a subnet, by its cell, namespace and name; False where another platform
    was faster. Raises ``RuntimeAway``."""


def claim_controller(
    cells: Fleet, env: Environment, machine: MachineRanges | None = None
) -> Controller:
    reconciler = _Claims(cells, env, machine)
    return Controller(
        "network-subnet-claim",
        cells,
        reconciler.reconcile,
        watches=[
            Watch.each(
                cells, networking.SUBNET_CLAIMS, indexes={CLAIMS_BY_CONTEXT: _context_key_of}
            ),
            Watch.each(cells, networking.SUBNETS),  # of the same name as the claim
            # The range of a deleted subnet is free again.
            Watch(cells, networking.SUBNETS, reconciler.refused, predicate=deleted),
            Watch(
                cells,
                networking.NETWORK_CONTEXTS,
                by_index(cells, networking.SUBNET_CLAIMS, CLAIMS_BY_CONTEXT),
            ),
        ],
        reads=[Read(cells, networking.LOCATIONS)],
        workers=1,  # two claims served at once could be given the same range
    )


def subnet_controller(cells: Fleet, env: Environment) -> Controller:
    """Acts as the infrastructure provider: reports each subnet allocated, programmed and ready."""

    async def reconcile(cell: Cluster, subnet: Object) -> None:
        await write_conditions(
            cell.client,
            networking.SUBNETS,
            subnet,
            *PROGRAMMED,
            ConditionChange(
                networking.CONDITION_READY, TRUE, networking.REASON_READY, "Subnet is ready"
            ),
            now=env.now(),
            fields=_range_of(subnet),
        )

    return Controller(
        "network-subnet",
        cells,
        for_object(cells, networking.SUBNETS, reconcile),
        watches=[Watch.each(cells, networking.SUBNETS)],
    )


def _context_key_of(claim: Object) -> Iterable[str]:
    context = claim.view(networking.SubnetClaim).spec.network_context.name
    return [f"{claim.namespace}/{context}"]


class _Claims:
    def __init__(self, cells: Fleet, env: Environment, machine: MachineRanges | None) -> None:
        self._cells = cells
        self._env = env
        self._machine = machine
        self._given: dict[CellSubnetKey, tuple[NetworkKey, IPv4Network]] = {}
        """Ranges of subnets that were requested and are in no cache yet. One whose response was
        lost may exist, so its range stays with its claim."""
        self._refused: set[Request] = set()

    def refused(self, _: str, __: Object) -> Iterable[Request]:
        """The claims that wait for a range to become free, in any cell."""
        yield from sorted(self._refused)

    async def reconcile(self, request: Request) -> Result:
        cell = self._cells.get(request.cluster)
        if cell is None:
            return DONE
        claim = cell.cache(networking.SUBNET_CLAIMS).get(request.name, request.namespace)
        if claim is None or claim.metadata.deleting:
            self._given.pop((request.cluster, request.namespace, request.name), None)
            self._refused.discard(request)
            return DONE
        subnet = cell.cache(networking.SUBNETS).get(claim.name, claim.namespace)
        if subnet is None:
            context = self._context_of(cell, claim)
            if context is None:
                return DONE  # woken when it is created
            subnet = await self._create_subnet(cell, claim, context)
            if subnet is None:
                self._refused.add(request)
                return after(RETRY_SECONDS)
        self._refused.discard(request)
        await self._report_subnet(cell, claim, subnet)
        return DONE

    def _context_of(self, cell: Cluster, claim: Object) -> Object | None:
        name = claim.view(networking.SubnetClaim).spec.network_context.name
        context = cell.cache(networking.NETWORK_CONTEXTS).get(name, claim.namespace)
        return None if context is None or context.metadata.deleting else context

    async def _create_subnet(self, cell: Cluster, claim: Object, context: Object) -> Object | None:
        """None where no range can be given; the claim reports why."""
        network = (context.namespace, context.view(networking.NetworkContext).spec.network.name)
        key = (cell.name, claim.namespace, claim.name)
        taken = self._taken(network, excluded=key)
        if self._machine is not None:
            taken += await self._machine.occupied()
        if key in self._given:
            chosen = self._given[key][1]
        else:
            found, reason, message = await self._claim(cell, claim, taken)
            if found is None:
                await self._report_refusal(cell, claim, reason, message)
                return None
            chosen = found
        self._given[key] = (network, chosen)
        subnet = await create_owned(
            cell.client,
            networking.SUBNETS,
            _build_subnet(claim, chosen),
            networking.NETWORK_CONTEXTS,
            context,
            delay=NOT_SEEN_SECONDS,
        )
        if subnet is None:
            del self._given[key]
            raise Waiting(f"network context {context.name} was deleted or replaced", 1.0)
        return subnet

    async def _claim(
        self, cell: Cluster, claim: Object, taken: list[IPv4Network]
    ) -> tuple[IPv4Network | None, str, str]:
        """A range that is ours, on the machine too: the next one where it was just taken."""
        while True:
            chosen, reason, message = self._choose(cell, claim, taken)
            if chosen is None or self._machine is None:
                return chosen, reason, message
            try:
                if await self._machine.claim(cell.name, claim.namespace, claim.name, chosen):
                    return chosen, reason, message
            except RuntimeAway as error:
                raise Waiting(f"range {chosen} cannot be taken: {error}", AWAY_SECONDS) from error
            taken = [*taken, chosen]

    def _taken(self, network: NetworkKey, excluded: CellSubnetKey) -> list[IPv4Network]:
        """The ranges the network has in any cell, except those of the subnet ``excluded``; of
        all networks where they are real."""
        found = []
        for cell in self._cells.clusters():
            contexts = cell.cache(networking.NETWORK_CONTEXTS)
            namespace = network[0] if self._machine is None else ""
            subnets = cell.cache(networking.SUBNETS).list(namespace)
            for obj in readable(subnets, networking.Subnet):
                self._given.pop((cell.name, obj.namespace, obj.name), None)
                spec = obj.view(networking.Subnet).spec
                context = contexts.get(spec.network_context.name, obj.namespace)
                known = context and context.view(networking.NetworkContext).spec.network.name
                # A subnet whose context is gone is about to be deleted and still has its range.
                if self._machine is not None or known in (None, network[1]):
                    found.append(pool.parse_range(spec.start_address, spec.prefix_length))
        found += [
            given
            for key, (owner, given) in self._given.items()
            if (self._machine is not None or owner == network) and key != excluded
        ]
        return [one for one in found if one is not None]

    def _choose(
        self, cell: Cluster, claim: Object, taken: list[IPv4Network]
    ) -> tuple[IPv4Network | None, str, str]:
        spec = claim.view(networking.SubnetClaim).spec
        if spec.ip_family != "IPv4":
            return None, REASON_RANGE_UNSUPPORTED, f"no {spec.ip_family} ranges are served here"
        if spec.start_address is None:
            city = self._city_of(cell, spec.location.name)
            chosen = pool.decide_range(city, taken)
            return chosen, REASON_POOL_EXHAUSTED, f"no /{pool.PREFIX_LENGTH} of {pool.POOL} is free"
        text = f"{spec.start_address}/{spec.prefix_length or pool.PREFIX_LENGTH}"
        wanted = pool.parse_range(spec.start_address, spec.prefix_length or pool.PREFIX_LENGTH)
        if wanted is None:
            return None, REASON_RANGE_UNSUPPORTED, f"{text} is not an IPv4 range"
        if any(wanted.overlaps(other) for other in taken):
            return (
                None,
                REASON_RANGE_OCCUPIED,
                f"{text} overlaps another subnet of the network",
            )
        return wanted, "", ""

    def _city_of(self, cell: Cluster, location: str) -> str:
        found = cell.cache(networking.LOCATIONS).get(location)
        city = found.view(networking.Location).city_code if found else ""
        return city or location

    async def _report_refusal(
        self, cell: Cluster, claim: Object, reason: str, message: str
    ) -> None:
        not_ready = networking.REASON_SUBNET_NOT_READY
        await write_conditions(
            cell.client,
            networking.SUBNET_CLAIMS,
            claim,
            ConditionChange(networking.CONDITION_ALLOCATED, FALSE, reason, message),
            ConditionChange(networking.CONDITION_READY, FALSE, not_ready, message),
            now=self._env.now(),
        )

    async def _report_subnet(self, cell: Cluster, claim: Object, subnet: Object) -> None:
        status = subnet.view(networking.Subnet).status
        if not conditions.is_true(status.conditions, networking.CONDITION_READY):
            return  # its own controller is about to report it ready; then one write is enough
        ready = networking.REASON_SUBNET_READY
        await write_conditions(
            cell.client,
            networking.SUBNET_CLAIMS,
            claim,
            *PROGRAMMED,
            ConditionChange(networking.CONDITION_READY, TRUE, ready, "Subnet is ready"),
            now=self._env.now(),
            fields={"subnetRef": {"name": subnet.name}, **_range_of(subnet)},
        )


def _build_subnet(claim: Object, chosen: IPv4Network) -> dict[str, Any]:
    spec = claim.view(networking.SubnetClaim).spec
    return {
        "metadata": {"name": claim.name, "namespace": claim.namespace},
        "spec": {
            "subnetClass": spec.subnet_class,
            "networkContext": {"name": spec.network_context.name},
            "location": {"name": spec.location.name, "namespace": spec.location.namespace},
            "ipFamily": spec.ip_family,
            "startAddress": str(chosen.network_address),
            "prefixLength": chosen.prefixlen,
        },
    }


def _range_of(subnet: Object) -> dict[str, Any]:
    spec = subnet.view(networking.Subnet).spec
    return {"startAddress": spec.start_address, "prefixLength": spec.prefix_length}
