"""Clients of a manager's planes, from the kubeconfigs of its settings.

A request passes the fence of leader election and then the check of its plane, and is counted when
it is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from datum_compute.api.planes import PROJECT
from datum_compute.assembly.manager import plane_check
from datum_compute.assembly.manager.plane_check import (
    CheckedTransport,
    PlaneCheck,
    PlaneRole,
    WrongPlane,
)
from datum_compute.assembly.manager.settings import ManagerSettings, SettingsError
from datum_compute.client import connect, errors, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.client.kubeconfig import Connection, KubeconfigError
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Transport
from datum_compute.controllers.planes import HUB, SINGLE
from datum_compute.env import Environment
from datum_compute.runtime.backoff import RECONNECT
from datum_compute.runtime.leadership import FencedTransport
from datum_compute.runtime.metrics.client_metrics import CountedTransport, UnreadableCount
from datum_compute.runtime.metrics.registry import MetricsRegistry

USER_AGENT = "compute-manager"


class PlaneClients:
    """Clients of the planes a manager talks to; ``close`` closes all of them.

    Their writes are fenced: none is sent while ``held`` is False, nor before it is known that
    the plane is of the type the manager needs."""

    def __init__(
        self,
        env: Environment,
        settings: ManagerSettings,
        metrics: MetricsRegistry,
        *,
        transport_for: Callable[[Connection], Transport] = connect.transport_for,
    ) -> None:
        self._env = env
        self._settings = settings
        self._metrics = metrics
        self._transport_for = transport_for
        self._unreadable = UnreadableCount(metrics)
        self._clients: list[ApiClient] = []
        self._checks: dict[str, PlaneCheck] = {}
        """Of the planes that are known from the start, by flag or field."""
        self.held: Callable[[], bool] = lambda: True
        """Whether this process leads; always True without leader election."""

    def own(self, *, fenced: bool = True) -> Client:
        return self._client(
            own_connection(self._env, self._settings),
            SINGLE,
            self._own_name(),
            self.own_role(),
            fenced=fenced,
        )

    def lease(self) -> Client:
        """A client of the manager's own cluster for the Lease. Not fenced: writing the Lease
        decides who leads."""
        return self.own(fenced=False)

    def hub(self) -> Client:
        settings = self._settings
        where = f"{settings.federation_source} {settings.federation_kubeconfig}"
        return self._client(self.hub_connection(), HUB, where, plane_check.HUB)

    def hub_connection(self) -> Connection:
        settings = self._settings
        return kubeconfig.load(
            settings.federation_kubeconfig, settings.federation_context, env=self._env
        )

    def core(self) -> Client:
        """The cluster of the Project objects, which are only read."""
        path = self._settings.discovery.discovery_kubeconfig_path
        return self._client(self.connection(path), "core", path, None)

    def project(self, name: str, path: str, *, fenced: bool = True) -> Client:
        """A project's plane below the server of this kubeconfig."""
        connection = self.project_connection(name, path)
        role = plane_check.PROJECT if self._settings.management else plane_check.CLAIMS
        where = f"project {name} of {path or self._own_name()}"
        return self._client(connection, name, where, role, fenced=fenced, lasting=False)

    def project_connection(self, name: str, path: str) -> Connection:
        return self.connection(path)._replace(prefix=PROJECT.path.format(name))

    def reader(self, connection: Connection, cluster: str) -> Client:
        """A client for reads and reviews, which pass neither fence nor check."""
        return self._client(connection, cluster, "", None, fenced=False)

    async def verify(self) -> None:
        """Check the planes that are known from the start, until each has passed.

        Raises :class:`SettingsError` for one that is another plane than the manager needs. One
        that does not answer is tried again: a cell starts without its hub."""
        failures = 0
        chance = self._env.random("manager.planes").random
        while True:
            open_checks = [check for check in self._checks.values() if not check.passed]
            calls = [check.verify() for check in open_checks]
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(outcome, WrongPlane):
                    raise SettingsError(str(outcome)) from outcome
                if isinstance(outcome, BaseException) and not isinstance(
                    outcome, errors.ClientError
                ):
                    raise outcome
            if all(check.passed for check in open_checks):
                return
            await asyncio.sleep(max(1.0, RECONNECT.delay(failures, chance())))
            failures += 1

    def refused(self) -> list[str]:
        """Planes that answered and are not what they should be, for readiness."""
        return [check.fault for check in self._checks.values() if check.fault]

    def _own_name(self) -> str:
        path = self._settings.kubeconfig
        return f"--kubeconfig {path}" if path else "the manager's own cluster"

    def own_role(self) -> PlaneRole | None:
        """None where the own cluster holds nothing but the Lease."""
        settings = self._settings
        if settings.cell:
            return plane_check.SINGLE_CLUSTER if settings.management else plane_check.CELL
        return plane_check.PROJECT if settings.discovery.mode == "single" else None

    def connection(self, path: str) -> Connection:
        """By the kubeconfig of this path, else to the manager's own cluster."""
        if path:
            return kubeconfig.load(path, env=self._env)
        return own_connection(self._env, self._settings)

    def _client(
        self,
        connection: Connection,
        cluster: str,
        where: str,
        role: PlaneRole | None,
        *,
        fenced: bool = True,
        lasting: bool = True,
    ) -> Client:
        """``lasting`` are planes that the manager has from start to end."""
        host = urlsplit(connection.origin).netloc
        transport: Transport = CountedTransport(
            self._transport_for(connection), self._metrics, host
        )
        if role is not None:
            check = self._checks.get(where)
            if check is None:
                check = PlaneCheck(where, role, self._api_client(connection, cluster, transport))
                if lasting:
                    self._checks[where] = check
            transport = CheckedTransport(transport, check)
        if fenced:
            transport = FencedTransport(transport, lambda: self.held())
        client = self._api_client(connection, cluster, transport)
        self._clients.append(client)
        return client

    def _api_client(self, connection: Connection, cluster: str, transport: Transport) -> ApiClient:
        return ApiClient(
            transport,
            cluster=cluster,
            prefix=connection.prefix,
            token=connection.token,
            user_agent=USER_AGENT,
            field_manager=USER_AGENT,
            on_unreadable=self._unreadable,
        )

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


def own_connection(env: Environment, settings: ManagerSettings) -> Connection:
    """To the manager's own cluster."""
    path = settings.kubeconfig
    return kubeconfig.load(path, env=env) if path else kubeconfig.in_cluster(env)


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
