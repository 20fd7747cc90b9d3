"""Networks and Locations report Ready: there is nothing to set up here.

A Network whose ranges cannot be served reports that instead. A Location is reported ready once;
a later Ready=False by another writer, for maintenance, is left alone.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions


def network_controller(fleet: Fleet, env: Environment, name: str) -> Controller:
    """For the networks of projects, and for their mirrors in cells."""

    async def reconcile(cluster: Cluster, network: Object) -> None:
        ready = decide_ready(network.view(networking.Network))
        await write_conditions(cluster.client, networking.NETWORKS, network, ready, now=env.now())

    return Controller(
        name,
        fleet,
        for_object(fleet, networking.NETWORKS, reconcile),
        watches=[Watch.each(fleet, networking.NETWORKS, required=False)],
    )


def decide_ready(network: networking.Network) -> ConditionChange:
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
            return _ready(FALSE, networking.REASON_RANGE_UNSUPPORTED, message)
    return _ready(TRUE, networking.REASON_READY, "Network is ready")


def location_controller(cells: Fleet, env: Environment) -> Controller:
    async def reconcile(cell: Cluster, location: Object) -> None:
        known = location.view(networking.Location).status.conditions
        if conditions.find(known, networking.CONDITION_READY) is None:
            ready = _ready(TRUE, networking.REASON_READY, "Location is ready")
            await write_conditions(
                cell.client, networking.LOCATIONS, location, ready, now=env.now()
            )

    return Controller(
        "network-location",
        cells,
        for_object(cells, networking.LOCATIONS, reconcile),
        watches=[Watch.each(cells, networking.LOCATIONS)],
    )


def _ready(status: str, reason: str, message: str) -> ConditionChange:
    return ConditionChange(networking.CONDITION_READY, status, reason, message)
