"""Admission as a manager serves it: on every replica, for the projects that are ready.

Reviews reach replicas that do not lead, so they have their own fleet and clients, which leader
election does not fence: they only read and check access.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp

from datum_compute.assembly.manager.plane_clients import PlaneClients
from datum_compute.assembly.manager.settings import ManagerSettings
from datum_compute.client.protocol import Client
from datum_compute.controllers.planes import SINGLE
from datum_compute.env import Environment
from datum_compute.fleets.projects import ProjectFleet
from datum_compute.fleets.single import SingleFleet
from datum_compute.runtime.fleet import Fleet
from datum_compute.webhooks.app import webhook_app
from datum_compute.webhooks.projects import OfferReader
from datum_compute.webhooks.workload import WorkloadReviews


@dataclass(frozen=True, slots=True)
class Webhooks:
    app: ASGIApp
    fleet: Fleet
    """The projects under review; the caller runs it beside the application."""

    def missing(self) -> list[str]:
        """What is missing for readiness; empty when ready."""
        return [] if self.fleet.discovered else [f"fleet {self.fleet.name}: not discovered"]


def build_webhooks(env: Environment, settings: ManagerSettings, planes: PlaneClients) -> Webhooks:
    fleet = _projects(env, settings, planes)

    def client_of(project: str) -> Client | None:
        cluster = fleet.get(project)
        return cluster.client if cluster is not None else None

    single = SINGLE if settings.discovery.mode == "single" else ""
    # A manager with a cell of its own has no hub to deliver data through: see groups.
    reader = OfferReader(client_of, single=single, delivers_data=not settings.cell)
    # Traffic to Pods does not pass a manager, so it could not tell which of them are idle.
    return Webhooks(webhook_app(WorkloadReviews(reader, sleeps=False)), fleet)


def _projects(env: Environment, settings: ManagerSettings, planes: PlaneClients) -> Fleet:
    discovery = settings.discovery
    if discovery.mode == "single":
        return SingleFleet("admission", SINGLE, planes.own(fenced=False), env)
    path = discovery.project_kubeconfig_path or discovery.discovery_kubeconfig_path
    return ProjectFleet(
        "admission", planes.core(), lambda name: planes.project(name, path, fenced=False), env
    )
