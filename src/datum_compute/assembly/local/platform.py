"""What runs in a local platform, and in which order it starts.

First the API server with its planes, so that everything else has something to talk to;
then the stand-ins, which make a project ready and a cell reachable; then management and
the cells. Every part talks to the planes through a client of its own with an identity of
its own, in process; a person's kubectl comes in through the network front end to the same
handler.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from datum_compute.api import conditions, crds, karmada
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.assembly.local import bootstrap
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.assembly.local.verbs import LocalVerbs
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Handler, Transport
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.controllers.management.federation import federator
from datum_compute.controllers.management.projection import projector
from datum_compute.controllers.management.workload import workload_controller
from datum_compute.env import Environment
from datum_compute.fleets.projects import ProjectFleet
from datum_compute.fleets.single import SingleFleet
from datum_compute.fleets.static import StaticFleet
from datum_compute.fleets.tenants import TenantFleet
from datum_compute.platform.apiserver import access, routing
from datum_compute.platform.apiserver.server import ApiServer
from datum_compute.platform.apiserver.storage import Listener, Store
from datum_compute.platform.network import network_controllers, network_mirror_controllers
from datum_compute.platform.projects import project_controllers
from datum_compute.platform.propagation import propagation_controllers
from datum_compute.platform.quota import quota_controllers
from datum_compute.providers.simulated import simulated_provider
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import TaskGroup

ADMIN = "local-admin"


def in_process(handler: Handler, _: str) -> Transport:
    return InProcessTransport(handler)


async def _wait_ready(client: Client, resource: Resource, names: set[str]) -> None:
    """Until every object of these names has the condition Ready."""
    waiting = set(names)
    async with client.watch(resource) as events:
        async for event in events:
            status = msgspec.json.decode(event.object.status or b"{}", type=_Status)
            if conditions.is_true(status.conditions, "Ready"):
                waiting.discard(event.object.name)
            if not waiting:
                return


class _Status(msgspec.Struct):
    conditions: tuple[conditions.Condition, ...] = ()


class LocalPlatform:
    """Every plane, stand-in, controller and provider, on one event loop.

    ``async with platform.run():`` starts all of it and returns when it is ready; leaving
    the block stops everything in reverse order.
    """

    def __init__(
        self,
        env: Environment,
        database: Path | str,
        settings: LocalSettings,
        *,
        carrier: Callable[[Handler, str], Transport] = in_process,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """``carrier`` makes a user's transport to the server, and ``listeners`` hear of every
        change in the store; simulations bring their own."""
        self.env = env
        self.settings = settings
        self._database = str(database)
        self._carrier = carrier
        self._listeners = listeners
        self._server: ApiServer | None = None
        self._store: Store | None = None
        self._tokens: dict[str, str] = {}

    @property
    def server(self) -> ApiServer:
        if self._server is None:
            raise RuntimeError("the platform does not run")
        return self._server

    @asynccontextmanager
    async def run(self, *, admin_token: str) -> AsyncIterator[LocalPlatform]:
        store = self._store = Store(self.env, self._database)
        store.listeners.extend(self._listeners)
        try:
            verbs = LocalVerbs(self.env, self.settings, lambda: sorted(store.planes))
            self._server = ApiServer(self.env, store, crds_for=crds.crds_for, local=verbs.handle)
            self._tokens = {ADMIN: admin_token}
            self._server.add_user(ADMIN, (access.MASTERS,), admin_token)
            for plane, kind in self._planes():
                self._server.ensure_plane(plane, kind)
            async with TaskGroup("local platform") as tasks:
                server = tasks.start(self._server.run(), name="apiserver")
                await self._bootstrap_planes()
                managers = self.managers()
                running = [tasks.start(m.run(), name=m.name) for m in managers]
                await self._bootstrap_project()
                await self._wait_usable()
                for manager in managers:
                    await manager.wait_ready()
                try:
                    yield self
                finally:
                    await tasks.stop(server, *running)
        finally:
            self._server = None
            store.close()

    def abandon(self) -> None:
        """Let go of the file as a killed process would; for simulations of just that."""
        if self._store is not None:
            self._store.close()

    def client(self, plane: str, user: str) -> Client:
        """A client of a plane as a user made for this run: its token is in no file."""
        token = self._tokens.get(user)
        if token is None:
            token = self._tokens[user] = self.env.new_token()
            self.server.add_user(user, (access.MASTERS,), token)
        return ApiClient(
            self._carrier(self.server.handle, user),
            cluster=plane.rpartition("/")[2],
            prefix=routing.plane_prefix(plane),
            token=token,
            user_agent=user,
            field_manager=user,
        )

    def managers(self) -> list[Manager]:
        """Everything that runs beside the API server, in the order of its start."""
        return [self.stand_ins(), *self.controllers(), *self.providers()]

    def controllers(self) -> list[Manager]:
        return [self._management(), *(self._cell(cell) for cell in self.settings.cells)]

    def providers(self) -> list[Manager]:
        return [self._provider(cell) for cell in self.settings.cells]

    def _planes(self) -> list[tuple[str, str]]:
        cells = [(f"cell/{cell}", "cell") for cell in self.settings.cells]
        return [("root", "root"), ("hub", "hub"), *cells]

    async def _bootstrap_planes(self) -> None:
        await bootstrap.ensure_root(self.client("root", ADMIN), self.settings)
        await bootstrap.ensure_hub(self.client("hub", ADMIN), self.settings)
        for city, cell in zip(self.settings.cities, self.settings.cells, strict=True):
            await bootstrap.ensure_location(self.client(f"cell/{cell}", ADMIN), city)

    async def _bootstrap_project(self) -> None:
        project = f"project/{self.settings.project}"
        await bootstrap.ensure_project(self.client(project, ADMIN), self.env, self.settings)

    async def _wait_usable(self) -> None:
        """Until the project's plane is ready and every cell answers the hub."""
        root_client, hub_client = self.client("root", ADMIN), self.client("hub", ADMIN)
        await _wait_ready(root_client, resourcemanager.PROJECTS, {self.settings.project})
        await _wait_ready(hub_client, karmada.CLUSTERS, set(self.settings.cells))

    def _projects(self, user: str) -> ProjectFleet:
        return ProjectFleet(
            "projects",
            self.client("root", user),
            lambda project: self.client(f"project/{project}", user),
            self.env,
        )

    def _hub(self, user: str) -> SingleFleet:
        return SingleFleet("hub", "hub", self.client("hub", user), self.env)

    def _cells(self, user: str) -> StaticFleet:
        clients = {cell: self.client(f"cell/{cell}", user) for cell in self.settings.cells}
        return StaticFleet("cells", clients, self.env)

    def stand_ins(self) -> Manager:
        manager = Manager("stand-ins", self.env)
        root = SingleFleet("root", "root", self.client("root", "standin-projects"), self.env)
        manager.add(
            *project_controllers(
                root, lambda p: self.client(f"project/{p}", "standin-projects"), self.env
            )
        )
        hub, members = self._hub("standin-propagation"), self._cells("standin-propagation")
        manager.add(*propagation_controllers(hub, members, self.env))
        manager.add(*quota_controllers(self._projects("standin-quota"), self.env))
        cells, projects = self._cells("standin-network"), self._projects("standin-network")
        manager.add(*network_controllers(cells, self.env))
        manager.add(*network_mirror_controllers(projects, cells, self.env))
        return manager

    def _management(self) -> Manager:
        manager = Manager("management", self.env)
        projects, hub = self._projects("compute-management"), self._hub("compute-management")
        manager.add(
            workload_controller(projects, self.env),
            federator(projects, hub, self.env),
            projector(projects, hub, self.env),
        )
        return manager

    def _cell(self, cell: str) -> Manager:
        user = f"compute-cell-{cell}"
        manager = Manager(f"cell-{cell}", self.env)
        own = SingleFleet("cell", "single", self.client(f"cell/{cell}", user), self.env)
        tenants = TenantFleet(
            "tenants", own, lambda project: self.client(f"project/{project}", user), self.env
        )
        hub = self._hub(user)
        manager.add(
            workload_deployment_controller(
                own,
                self.env,
                networking=True,
                hub=hub,
                projects=tenants,
                cluster_name=cell,
            ),
            instance_controller(
                own,
                self.env,
                hub=hub,
                projects=tenants,
                cluster_name=cell,
                networking=True,
            ),
        )
        return manager

    def _provider(self, cell: str) -> Manager:
        manager = Manager(f"provider-{cell}", self.env)
        own = SingleFleet(
            "cell", "single", self.client(f"cell/{cell}", f"provider-{cell}"), self.env
        )
        manager.add(*simulated_provider(own, self.env))
        return manager
