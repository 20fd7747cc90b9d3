"""The stand-in for network services: networks, their presence in cells, and address ranges.

:mod:`.locations` binds the platform's locations in every project; :mod:`.mirror` copies a
project's networks into the cells that need them; :mod:`.networks` reports networks and
locations ready; :mod:`.bindings` creates the context of a network at a location;
:mod:`.subnets` allocates its ranges from the :mod:`.pool`. It also acts as the infrastructure
provider that programs contexts and subnets. ``docs/develop/stand-in-facts.md`` lists what it
keeps of the real system and what it leaves out.
"""

from __future__ import annotations

from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.fleet import Fleet
from datum_compute.standins.network_services.bindings import binding_controller, context_controller
from datum_compute.standins.network_services.locations import location_binding_controller
from datum_compute.standins.network_services.mirror import mirror_controller
from datum_compute.standins.network_services.networks import location_controller, network_controller
from datum_compute.standins.network_services.subnets import (
    MachineRanges,
    claim_controller,
    subnet_controller,
)


def network_controllers(
    cells: Fleet, env: Environment, machine: MachineRanges | None = None
) -> list[Controller]:
    """For all cells together: ranges of one network must not overlap between them. With
    ``machine`` networks are real: no two ranges on it overlap."""
    return [
        binding_controller(cells, env),
        context_controller(cells, env),
        claim_controller(cells, env, machine),
        subnet_controller(cells, env),
        network_controller(cells, env, "network"),
        location_controller(cells, env),
    ]


def network_mirror_controllers(
    projects: Fleet, cells: Fleet, root: Fleet, env: Environment
) -> list[Controller]:
    """Networks and locations, which cross between projects and cells."""
    return [
        mirror_controller(projects, cells, env),
        network_controller(projects, env, "network-project"),
        location_binding_controller(projects, cells, root, env),
    ]


__all__ = ["MachineRanges", "network_controllers", "network_mirror_controllers"]
