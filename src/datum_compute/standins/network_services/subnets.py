"""SubnetClaims and Subnets: each claim gets one subnet, of the same name.

The subnet is controlled by the network context, so it lives as long as the network's presence
at the location, not as long as the claim. Its range is the one the claim names, or one from
the :mod:`.pool`. Ranges of one network must not overlap in any cell, so claims are served one
at a time, looking at the subnets of all cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE, Conditions
from datum_compute.api.meta import Object, owner_reference
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch
from datum_compute.standins.network_services import pool
from datum_compute.standins.network_services.owners import owner_exists

CLAIMS_BY_CONTEXT = "network/claim-context"

REASON_POOL_EXHAUSTED = "PoolExhausted"
REASON_RANGE_OCCUPIED = "RangeOccupied"
REASON_RANGE_UNSUPPORTED = "RangeUnsupported"

RETRY_SECONDS = 60.0
"""Until a refused claim is looked at again even if no subnet went. A guess."""

NetworkKey = tuple[str, str]
"""Namespace and name of a network, the same in every cell."""

CellSubnetKey = tuple[str, str, str]
"""Cell, namespace and name."""


def claim_controller(cells: Fleet, env: Environment) -> Controller:
    reconciler = _Claims(cells, env)
    return Controller(
        "network-subnet-claim",
        cells,
        reconciler.reconcile,
        watches=[
            Watch(
                cells,
                networking.SUBNET_CLAIMS,
                itself,
                indexes={CLAIMS_BY_CONTEXT: _context_key_of},
            ),
            Watch(cells, networking.SUBNETS, itself),  # of the same name as the claim
            Watch(
                cells,
                networking.SUBNETS,
                reconciler.refused,
                predicate=lambda _, new: new is None,  # its range is free again
            ),
            Watch(cells, networking.NETWORK_CONTEXTS, reconciler.claims_of_context),
        ],
        reads=[Read(cells, networking.LOCATIONS)],
        workers=1,  # two claims served at once could be given the same range
    )


def subnet_controller(cells: Fleet, env: Environment) -> Controller:
    """Plays the infrastructure provider for subnets: allocated, programmed, ready."""

    async def reconcile(request: Request) -> Result:
        cell = cells.get(request.cluster)
        if cell is None:
            return DONE
        subnet = cell.cache(networking.SUBNETS).get(request.name, request.namespace)
        if subnet is None or subnet.metadata.deleting:
            return DONE
        view = subnet.view(networking.Subnet)
        wanted = _programmed(view.status.conditions, subnet.metadata.generation, env)
        wanted = conditions.with_condition(
            wanted,
            networking.CONDITION_READY,
            TRUE,
            networking.REASON_READY,
            "Subnet is ready",
            now=env.now(),
            observed_generation=subnet.metadata.generation,
        )
        status = {
            **patch.values(subnet.status),
            "startAddress": view.spec.start_address,
            "prefixLength": view.spec.prefix_length,
            "conditions": conditions.to_wire(wanted),
        }
        await patch.write_status(cell.client, networking.SUBNETS, subnet, status)
        return DONE

    watches = [Watch(cells, networking.SUBNETS, itself)]
    return Controller("network-subnet", cells, reconcile, watches=watches)


def _context_key_of(claim: Object) -> Iterable[str]:
    context = claim.view(networking.SubnetClaim).spec.network_context.name
    return [f"{claim.namespace}/{context}"]


class _Claims:
    def __init__(self, cells: Fleet, env: Environment) -> None:
        self._cells = cells
        self._env = env
        self._given: dict[CellSubnetKey, tuple[NetworkKey, IPv4Network]] = {}
        """Ranges of subnets we asked for and no cache has shown yet, by cell, namespace, name.
        One whose answer was lost may have been made, so its range stays with its claim."""
        self._refused: set[Request] = set()

    def refused(self, _: str, __: Object) -> Iterable[Request]:
        """The claims that wait for a range to become free, in any cell."""
        yield from sorted(self._refused)

    def claims_of_context(self, cluster: str, context: Object) -> Iterable[Request]:
        cell = self._cells.get(cluster)
        if cell is None:
            return
        claims = cell.cache(networking.SUBNET_CLAIMS)
        for claim in claims.by_index(CLAIMS_BY_CONTEXT, f"{context.namespace}/{context.name}"):
            yield Request(cluster, claim.namespace, claim.name)

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
                return DONE  # woken when it comes
            subnet = await self._make_subnet(cell, claim, context)
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

    async def _make_subnet(self, cell: Cluster, claim: Object, context: Object) -> Object | None:
        # A subnet of a context that is gone would be collected at once, and made again.
        if not await owner_exists(cell, networking.NETWORK_CONTEXTS, context):
            raise Waiting(f"network context {context.name} is not what it was", 1.0)
        network = (context.namespace, context.view(networking.NetworkContext).spec.network.name)
        key = (cell.name, claim.namespace, claim.name)
        chosen, reason, message = self._choose(cell, claim, self._taken(network, but=key))
        if key in self._given:
            chosen = self._given[key][1]
        if chosen is None:
            await self._report_refusal(cell, claim, reason, message)
            return None
        self._given[key] = (network, chosen)
        try:
            return await cell.client.create(
                networking.SUBNETS, _build_subnet(claim, context, chosen), claim.namespace
            )
        except errors.AlreadyExists as error:
            raise Waiting(f"subnet {claim.name} is not seen yet", 0.1) from error

    def _taken(self, network: NetworkKey, but: CellSubnetKey) -> list[IPv4Network]:
        """The ranges the network has in any cell, but for those of one subnet."""
        found = []
        for cell in self._cells.clusters():
            contexts = cell.cache(networking.NETWORK_CONTEXTS)
            for obj in cell.cache(networking.SUBNETS).list(network[0]):
                self._given.pop((cell.name, obj.namespace, obj.name), None)
                spec = obj.view(networking.Subnet).spec
                context = contexts.get(spec.network_context.name, obj.namespace)
                known = context and context.view(networking.NetworkContext).spec.network.name
                # A subnet whose context is gone is on its way out, and still occupies its range.
                if known in (None, network[1]):
                    found.append(pool.parse_range(spec.start_address, spec.prefix_length))
        found += [
            given for key, (owner, given) in self._given.items() if owner == network and key != but
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
        asked = f"{spec.start_address}/{spec.prefix_length or pool.PREFIX_LENGTH}"
        wanted = pool.parse_range(spec.start_address, spec.prefix_length or pool.PREFIX_LENGTH)
        if wanted is None:
            return None, REASON_RANGE_UNSUPPORTED, f"{asked} is not an IPv4 range"
        if any(wanted.overlaps(other) for other in taken):
            return None, REASON_RANGE_OCCUPIED, f"{asked} overlaps another subnet of the network"
        return wanted, "", ""

    def _city_of(self, cell: Cluster, location: str) -> str:
        found = cell.cache(networking.LOCATIONS).get(location)
        city = found.view(networking.Location).city_code if found else ""
        return city or location

    async def _report_refusal(
        self, cell: Cluster, claim: Object, reason: str, message: str
    ) -> None:
        current = claim.view(networking.SubnetClaim).status.conditions
        for kind, why in (
            (networking.CONDITION_ALLOCATED, reason),
            (networking.CONDITION_READY, networking.REASON_SUBNET_NOT_READY),
        ):
            current = self._with(current, claim, kind, FALSE, why, message)
        await self._write(cell, claim, {"conditions": conditions.to_wire(current)})

    async def _report_subnet(self, cell: Cluster, claim: Object, subnet: Object) -> None:
        view = subnet.view(networking.Subnet)
        ready = conditions.is_true(view.status.conditions, networking.CONDITION_READY)
        if not ready:
            return  # its own controller is about to make it so; then one write says all
        current = _programmed(
            claim.view(networking.SubnetClaim).status.conditions,
            claim.metadata.generation,
            self._env,
        )
        current = self._with(
            current,
            claim,
            networking.CONDITION_READY,
            TRUE,
            networking.REASON_SUBNET_READY,
            "Subnet is ready",
        )
        await self._write(
            cell,
            claim,
            {
                "subnetRef": {"name": subnet.name},
                "startAddress": view.spec.start_address,
                "prefixLength": view.spec.prefix_length,
                "conditions": conditions.to_wire(current),
            },
        )

    def _with(
        self, current: Conditions, claim: Object, kind: str, status: str, reason: str, message: str
    ) -> Conditions:
        return conditions.with_condition(
            current,
            kind,
            status,
            reason,
            message,
            now=self._env.now(),
            observed_generation=claim.metadata.generation,
        )

    async def _write(self, cell: Cluster, claim: Object, part: dict[str, Any]) -> None:
        status = {**patch.values(claim.status), **part}
        await patch.write_status(cell.client, networking.SUBNET_CLAIMS, claim, status)


def _build_subnet(claim: Object, context: Object, chosen: IPv4Network) -> dict[str, Any]:
    spec = claim.view(networking.SubnetClaim).spec
    return {
        "apiVersion": networking.SUBNETS.api_version,
        "kind": networking.SUBNETS.kind,
        "metadata": {
            "name": claim.name,
            "namespace": claim.namespace,
            "ownerReferences": [owner_reference(context, controller=True)],
        },
        "spec": {
            "subnetClass": spec.subnet_class,
            "networkContext": {"name": spec.network_context.name},
            "location": {"name": spec.location.name, "namespace": spec.location.namespace},
            "ipFamily": spec.ip_family,
            "startAddress": str(chosen.network_address),
            "prefixLength": chosen.prefixlen,
        },
    }


def _programmed(current: Conditions, generation: int, env: Environment) -> Conditions:
    for kind, reason, message in (
        (
            networking.CONDITION_ALLOCATED,
            networking.REASON_PREFIX_ALLOCATED,
            "Prefix has been allocated",
        ),
        (
            networking.CONDITION_PROGRAMMED,
            networking.REASON_PROGRAMMED,
            "Subnet has been programmed",
        ),
    ):
        current = conditions.with_condition(
            current, kind, TRUE, reason, message, now=env.now(), observed_generation=generation
        )
    return current
