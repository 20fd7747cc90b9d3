"""Clients of a manager's planes, from the kubeconfigs of its settings."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from datum_compute.api.planes import PROJECT
from datum_compute.assembly.manager.settings import ManagerSettings, SettingsError
from datum_compute.client import connect, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.client.kubeconfig import Connection, KubeconfigError
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Transport
from datum_compute.controllers.planes import HUB, SINGLE
from datum_compute.env import Environment
from datum_compute.runtime.leadership import FencedTransport
from datum_compute.runtime.metrics.client_metrics import CountedTransport, UnreadableCount
from datum_compute.runtime.metrics.registry import MetricsRegistry

USER_AGENT = "compute-manager"


class PlaneClients:
    """Clients of the planes a manager talks to; ``close`` closes all of them.

    Their writes are fenced: none is sent while ``held`` is False."""

    def __init__(
        self, env: Environment, settings: ManagerSettings, metrics: MetricsRegistry
    ) -> None:
        self._env = env
        self._settings = settings
        self._metrics = metrics
        self._unreadable = UnreadableCount(metrics)
        self._clients: list[ApiClient] = []
        self.held: Callable[[], bool] = lambda: True
        """Whether this process leads; always True without leader election."""

    def own(self, *, fenced: bool = True) -> Client:
        return self._client(self._own_connection(), SINGLE, fenced=fenced)

    def lease(self) -> Client:
        """A client of the manager's own cluster for the Lease. Not fenced: writing the Lease
        decides who leads."""
        return self._client(self._own_connection(), SINGLE, fenced=False)

    def hub(self) -> Client:
        settings = self._settings
        connection = kubeconfig.load(
            settings.federation_kubeconfig, settings.federation_context, env=self._env
        )
        return self._client(connection, HUB)

    def core(self) -> Client:
        """The cluster of the Project objects."""
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
        transport: Transport = connect.transport_for(connection)
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


def check_kubeconfigs(env: Environment, settings: ManagerSettings) -> None:
    """Read every kubeconfig before anything starts: some are needed only when a project
    appears, and a wrong path would then look like an unreachable project.

    Raises :class:`SettingsError` with the flag or field of the first unusable one."""
    for where, path, context in settings.kubeconfigs():
        try:
            connection = kubeconfig.load(path, context, env=env)
        except KubeconfigError as error:
            raise SettingsError(f"{where}: {error}") from error
        try:
            connection.tls()
        except KubeconfigError as error:
            raise SettingsError(f"{where}: {path}: {error}") from error
