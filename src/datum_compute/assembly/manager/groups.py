"""Which controllers a manager runs, on which planes, by its settings.

=====================  ==========================  ==================================
enabled                with a hub                  without
=====================  ==========================  ==================================
management             projects and hub            refused: nowhere to send work
cell                   the cell, reporting         the cell, on its own
both                   refused                     everything on one cluster
=====================  ==========================  ==================================
"""

from __future__ import annotations

from pathlib import Path

from datum_compute.api.kinds import KINDS
from datum_compute.api.meta import prepare_view
from datum_compute.assembly.manager.plane_clients import PlaneClients
from datum_compute.assembly.manager.settings import (
    NO_PROVIDER,
    PROVIDER_SETTING,
    ManagerSettings,
    SettingsError,
)
from datum_compute.assembly.process_groups import add_cell, add_management, add_provider
from datum_compute.client import kubeconfig
from datum_compute.controllers.planes import HUB, SINGLE
from datum_compute.env import Environment
from datum_compute.fleets.projects import ProjectFleet
from datum_compute.fleets.single import SingleFleet
from datum_compute.log import get_logger
from datum_compute.providers.registry import ProviderContext
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.leadership import Leadership, LeaseName
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.metrics.registry import MetricsRegistry

logger = get_logger(__name__)


def build_manager(
    env: Environment, settings: ManagerSettings, planes: PlaneClients, metrics: MetricsRegistry
) -> Manager:
    for kind in KINDS:
        prepare_view(kind.view)
    leadership = _leadership(env, settings, planes)
    manager = Manager("compute-manager", env, metrics=metrics, leadership=leadership)
    if settings.management:
        hub = None if settings.cell else SingleFleet("hub", HUB, planes.hub(), env)
        add_management(manager, env, projects=_projects(env, settings, planes), hub=hub)
    if settings.cell:
        _add_cell(manager, env, settings, planes)
    return manager


def _leadership(
    env: Environment, settings: ManagerSettings, planes: PlaneClients
) -> Leadership | None:
    if not settings.leader_elect:
        return None
    lease = LeaseName(lease_namespace(settings), settings.lease_name)
    identity = f"{env.variable('HOSTNAME') or 'compute-manager'}_{env.new_uid()}"
    leadership = Leadership(planes.lease(), lease, identity, env)
    planes.held = leadership.held
    return leadership


def lease_namespace(
    settings: ManagerSettings, directory: Path = Path(kubeconfig.SERVICE_ACCOUNT)
) -> str:
    """The namespace of the flag, else that of the pod."""
    if settings.leader_elect_namespace:
        return settings.leader_elect_namespace
    try:
        return (directory / "namespace").read_text().strip()
    except OSError as error:
        raise SettingsError(
            "--leader-elect: the namespace of the Lease is unknown"
            f" ({directory / 'namespace'}: {error.strerror}): set --leader-elect-namespace"
        ) from error


def _projects(env: Environment, settings: ManagerSettings, planes: PlaneClients) -> Fleet:
    discovery = settings.discovery
    if discovery.mode == "single":
        return SingleFleet("projects", SINGLE, planes.own(), env)
    path = discovery.project_kubeconfig_path or discovery.discovery_kubeconfig_path
    return ProjectFleet("projects", planes.core(), lambda name: planes.project(name, path), env)


def _add_cell(
    manager: Manager, env: Environment, settings: ManagerSettings, planes: PlaneClients
) -> None:
    cell = SingleFleet("cell", SINGLE, planes.own(), env)
    hub = SingleFleet("hub", HUB, planes.hub(), env) if settings.federation_kubeconfig else None
    cluster_name = settings.discovery.cluster_name or SINGLE
    quota_path = settings.quota_kubeconfig
    if not quota_path:
        logger.warning("quota is not enforced: no quota kubeconfig is configured")
    add_cell(
        manager,
        env,
        cell=cell,
        cluster_name=cluster_name,
        networking=settings.networking,
        hub=hub,
        project_client=(lambda name: planes.project(name, quota_path)) if quota_path else None,
    )
    if settings.provider != NO_PROVIDER:
        context = ProviderContext(
            cluster_name,
            cell,
            env,
            networking=settings.networking,
            settings=settings.provider_settings,
        )
        try:
            add_provider(manager, settings.provider, context)
        except ValueError as error:
            raise SettingsError(f"{PROVIDER_SETTING} {error}") from error
