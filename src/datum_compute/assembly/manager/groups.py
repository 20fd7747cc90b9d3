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

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from datum_compute.api.planes import PROJECT
from datum_compute.assembly.manager.settings import NO_PROVIDER, ManagerSettings, SettingsError
from datum_compute.assembly.process_groups import add_cell, add_management, add_provider
from datum_compute.client import kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.client.kubeconfig import Connection
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Transport
from datum_compute.controllers.planes import HUB, SINGLE
from datum_compute.env import Environment
from datum_compute.fleets.projects import ProjectFleet
from datum_compute.fleets.single import SingleFleet
from datum_compute.log import get_logger
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.leadership import FencedTransport, Leadership, LeaseName
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.metrics.client_metrics import CountedTransport, UnreadableCount
from datum_compute.runtime.metrics.registry import MetricsRegistry

logger = get_logger(__name__)

USER_AGENT = "compute-manager"


class PlaneClients:
    """Clients of the planes a manager talks to; ``close`` closes all of them.

    Their writes are fenced: while ``held`` says no, none is sent."""

    def __init__(
        self, env: Environment, settings: ManagerSettings, metrics: MetricsRegistry
    ) -> None:
        self._env = env
        self._settings = settings
        self._metrics = metrics
        self._unreadable = UnreadableCount(metrics)
        self._clients: list[ApiClient] = []
        self.held: Callable[[], bool] = lambda: True
        """Whether this process may act; without an election it always may."""

    def own(self, *, fenced: bool = True) -> Client:
        return self._client(self._own_connection(), SINGLE, fenced=fenced)

    def lease(self) -> Client:
        """Of the own cluster, for the Lease alone: it decides who may act, so it may."""
        return self._client(self._own_connection(), SINGLE, fenced=False)

    def hub(self) -> Client:
        settings = self._settings
        connection = kubeconfig.load(
            settings.federation_kubeconfig, settings.federation_context, env=self._env
        )
        return self._client(connection, HUB)

    def core(self) -> Client:
        """Where Project objects are."""
        path = self._settings.discovery.discovery_kubeconfig_path
        return self._client(self._connection(path), "core")

    def project(self, name: str, path: str, *, fenced: bool = True) -> Client:
        """A project's plane below the server of this kubeconfig."""
        connection = self._connection(path)._replace(prefix=PROJECT.path.format(name))
        return self._client(connection, name, fenced=fenced)

    def _own_connection(self) -> Connection:
        path = self._settings.kubeconfig
        return kubeconfig.load(path, env=self._env) if path else kubeconfig.in_cluster(self._env)

    def _connection(self, path: str) -> Connection:
        return kubeconfig.load(path, env=self._env) if path else self._own_connection()

    def _client(self, connection: Connection, cluster: str, *, fenced: bool = True) -> Client:
        transport: Transport = kubeconfig.transport_for(connection)
        if fenced:
            transport = FencedTransport(transport, lambda: self.held())
        host = urlsplit(connection.origin).netloc
        client = ApiClient(
            CountedTransport(transport, self._metrics, host),
            cluster=cluster,
            prefix=connection.prefix,
            token=connection.token,
            user_agent=USER_AGENT,
            field_manager=USER_AGENT,
            on_unreadable=self._unreadable,
        )
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


def build_manager(
    env: Environment, settings: ManagerSettings, planes: PlaneClients, metrics: MetricsRegistry
) -> Manager:
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
    """As told, or that of the pod we run in."""
    if settings.leader_elect_namespace:
        return settings.leader_elect_namespace
    try:
        return (directory / "namespace").read_text().strip()
    except OSError as error:
        raise SettingsError(
            "--leader-elect: which namespace the Lease belongs to cannot be told"
            f" ({directory / 'namespace'}: {error.strerror}): give --leader-elect-namespace"
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
    quota_path = settings.quota_kubeconfig
    if not quota_path:
        logger.warning("quota is not enforced: no quota kubeconfig is configured")
    add_cell(
        manager,
        env,
        cell=cell,
        cluster_name=settings.discovery.cluster_name or SINGLE,
        networking=settings.networking,
        hub=hub,
        project_client=(lambda name: planes.project(name, quota_path)) if quota_path else None,
    )
    if settings.provider != NO_PROVIDER:
        add_provider(manager, env, settings.provider, cell=cell, networking=settings.networking)
