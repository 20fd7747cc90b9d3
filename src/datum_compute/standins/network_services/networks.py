"""Networks and Locations say that they are ready: there is nothing to be set up here.

A Network whose ranges cannot be served says so instead. A Location is told to be ready once;
whoever then says that it is not, because it is being worked on, is believed.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch

ConditionFields = tuple[str, str, str]
"""Status, reason and message of a condition."""


def network_controller(fleet: Fleet, env: Environment, name: str) -> Controller:
    """For the networks of projects, and for their mirrors in cells."""

    async def reconcile(request: Request) -> Result:
        cluster = fleet.get(request.cluster)
        found = cluster.cache(networking.NETWORKS) if cluster else None
        network = found.get(request.name, request.namespace) if found else None
        if cluster is None or network is None or network.metadata.deleting:
            return DONE
        verdict = decide_network(network.view(networking.Network))
        status = _with_ready(network, verdict, env)
        await patch.write_status(cluster.client, networking.NETWORKS, network, status)
        return DONE

    watches = [Watch(fleet, networking.NETWORKS, itself, required=False)]
    return Controller(name, fleet, reconcile, watches=watches)


def decide_network(network: networking.Network) -> ConditionFields:
    ipam = network.spec.ipam
    for field, text, kind in (
        ("ipv4Range", ipam.ipv4_range, IPv4Network),
        ("ipv6Range", ipam.ipv6_range, IPv6Network),
    ):
        try:
            if text is not None:
                kind(text)
        except ValueError as error:
            message = f"spec.ipam.{field}: {error}"
            return FALSE, networking.REASON_RANGE_UNSUPPORTED, message
    return TRUE, networking.REASON_READY, "Network is ready"


def location_controller(cells: Fleet, env: Environment) -> Controller:
    async def reconcile(request: Request) -> Result:
        cell = cells.get(request.cluster)
        location = cell.cache(networking.LOCATIONS).get(request.name) if cell else None
        if cell is None or location is None or location.metadata.deleting:
            return DONE
        known = location.view(networking.Location).status.conditions
        if conditions.find(known, networking.CONDITION_READY) is None:
            verdict = (TRUE, networking.REASON_READY, "Location is ready")
            status = _with_ready(location, verdict, env)
            await patch.write_status(cell.client, networking.LOCATIONS, location, status)
        return DONE

    watches = [Watch(cells, networking.LOCATIONS, itself)]
    return Controller("network-location", cells, reconcile, watches=watches)


def _with_ready(obj: Object, verdict: ConditionFields, env: Environment) -> dict[str, object]:
    status = patch.values(obj.status)
    current = obj.view(networking.Location).status.conditions
    wanted = conditions.with_condition(
        current,
        networking.CONDITION_READY,
        *verdict,
        now=env.now(),
        observed_generation=obj.metadata.generation,
    )
    return {**status, "conditions": conditions.to_wire(wanted)}
