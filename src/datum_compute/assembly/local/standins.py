"""The stand-ins of a local platform, one record for each process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from datum_compute.assembly.local.plane_fleets import PlaneFleets
from datum_compute.providers import registry
from datum_compute.runtime.controller import Controller
from datum_compute.standins.karmada import karmada_controllers
from datum_compute.standins.milo_entitlements import Approval, entitlement_controllers
from datum_compute.standins.milo_projects import project_controllers
from datum_compute.standins.milo_quota import quota_controllers
from datum_compute.standins.network_services import (
    MachineRanges,
    network_controllers,
    network_mirror_controllers,
)

QUOTA = "standin-quota"
NETWORK = "standin-network"


@dataclass(frozen=True, slots=True)
class StandIn:
    process: str
    controllers: Callable[[PlaneFleets], list[Controller]]
    user: str = ""
    """The identity it acts as; by default the name of the process."""
    needs_all_cells: bool = False
    """Whether it is ready only when every cell has answered."""


def _projects(planes: PlaneFleets) -> list[Controller]:
    return project_controllers(planes.root(), planes.project_client, planes.env)


def _propagation(planes: PlaneFleets) -> list[Controller]:
    delay = planes.settings.propagation_max_delay
    return karmada_controllers(planes.hub(), planes.cells(), planes.env, max_delay=delay)


def _quota(planes: PlaneFleets) -> list[Controller]:
    return quota_controllers(planes.projects(), planes.root(), planes.env)


def _entitlements(planes: PlaneFleets) -> list[Controller]:
    settings = planes.settings
    approval = Approval(settings.approval_by_hand, settings.activation_seconds)
    return entitlement_controllers(planes.projects(), planes.root(), planes.env, approval)


def _network(planes: PlaneFleets) -> list[Controller]:
    """One process for all cells, because their ranges must not overlap; it runs in each of
    them, so a partition does not stop it."""
    provider = registry.find(planes.settings.runtime)
    machine = None
    if provider.occupied_ranges is not None and provider.claim_range is not None:
        machine = MachineRanges(
            partial(provider.occupied_ranges, planes.env),
            partial(provider.claim_range, planes.env, planes.platform),
        )
    return network_controllers(planes.cells_from_within(), planes.env, machine)


def _network_mirror(planes: PlaneFleets) -> list[Controller]:
    return network_mirror_controllers(planes.projects(), planes.cells(), planes.root(), planes.env)


STAND_INS = (
    StandIn("standin-projects", _projects),
    StandIn("standin-propagation", _propagation),
    StandIn(QUOTA, _quota),
    StandIn("standin-entitlements", _entitlements),
    StandIn(NETWORK, _network),
    StandIn("standin-network-mirror", _network_mirror, user=NETWORK, needs_all_cells=True),
)
"""In the order of their start."""
