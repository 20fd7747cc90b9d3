"""Builds and starts a local platform.

First the API server with its planes; then the stand-ins, which make a project ready and a cell
reachable; then management and the cells. Each process has its own client and user, in process;
kubectl reaches the same handler over the network.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from datum_compute.api import conditions, crds, karmada, planes
from datum_compute.api.planes import CELL, HUB, PROJECT, ROOT
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.apiserver.errors import ApiError
from datum_compute.apiserver.request import access
from datum_compute.apiserver.request.access import Authorizer
from datum_compute.apiserver.request.admission import Admission
from datum_compute.apiserver.request.roles import Roles
from datum_compute.apiserver.server import ApiServer
from datum_compute.apiserver.storage import open_store
from datum_compute.apiserver.storage.protocol import Listener, PlaneStore, Store, StoreEvent, Table
from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.assembly import rights
from datum_compute.assembly.local import admission, bootstrap
from datum_compute.assembly.local.cell_providers import CellProviders
from datum_compute.assembly.local.partitions import Partitions
from datum_compute.assembly.local.plane_fleets import CENTRE, PlaneFleets
from datum_compute.assembly.local.standins import QUOTA, STAND_INS, StandIn
from datum_compute.assembly.local.state import LocalSettings, platform_mark
from datum_compute.assembly.local.users import LocalUsers
from datum_compute.assembly.local.verbs import LocalVerbs
from datum_compute.assembly.process_groups import add_cell, add_management, add_provider
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Handler, Transport
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.providers.registry import ProviderContext
from datum_compute.router import RouteTable, router_controller
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.metrics.exposition import render
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.runtime.workqueue.start_limiter import StartLimiter

ADMIN = "local-admin"
_PROJECTS = resourcemanager.PROJECTS.group_resource
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_HUB_SETUP = (
    karmada.CLUSTERS.group_resource,
    karmada.INTERPRETER_CUSTOMIZATIONS.group_resource,
)

_log = get_logger(__name__)

RESTORE_SECONDS = 1.0
"""After a deletion, so that one restoration does for many. A guess."""

STARTS_PER_TURN = 4
"""Reconciles that start before the loop serves the network again. While a thousand Instances
start, this halves the length of a turn; fewer would cost more commits."""

CELL_RANK, PROVIDER_RANK = 1, 2
"""Among the starts, before all others: with 50 Workloads at once the first container then starts
after a third of the time (measured)."""

TransportFactory = Callable[[Handler, str, str], Transport]
"""Makes the transport of a process's client of a plane."""

ManagerFactory = Callable[[Environment], Manager]


class Running(Protocol):
    """A running process; a manager is one."""

    async def run(self) -> None: ...

    async def wait_ready(self) -> None: ...


def in_process_transport(handler: Handler, process: str, plane: str) -> Transport:
    return InProcessTransport(handler)


async def _wait_ready(client: Client, resource: Resource, names: set[str]) -> None:
    """Until every object of these names has the condition Ready."""
    waiting = set(names)
    async with client.watch(resource) as events:
        async for event in events:
            if conditions.is_true(conditions.of_status(event.object.status), "Ready"):
                waiting.discard(event.object.name)
            if not waiting:
                return


class LocalPlatform:
    """Every plane, stand-in, controller and provider, on one event loop.

    ``async with platform.run():`` starts all of it and returns when it is ready; leaving
    the block stops everything in reverse order.
    """

    networking = True
    quota = True
    """Whether cells run with these integrations; tests turn them off."""
    restores_setup = True
    """Whether definitions and Clusters of the platform come back when a user deletes them; tests
    of a cell that is gone turn it off."""

    def __init__(
        self,
        env: Environment,
        database: Path | str,
        settings: LocalSettings,
        *,
        partitions: Partitions | None = None,
        transport_factory: TransportFactory = in_process_transport,
        supervise: Callable[[str, ManagerFactory], Running] | None = None,
        listeners: Sequence[Listener] = (),
        guard: Callable[[Roles], Authorizer] = lambda roles: roles,
        worker: WorkerProcess | None = None,
        routes: RouteTable | None = None,
    ) -> None:
        """``partitions`` are the disconnected cells; ``worker`` takes requests that are too much
        for the loop; ``routes`` are kept for a router, where the settings have its port.
        Simulations replace the rest: ``transport_factory`` makes the transports of the processes,
        ``supervise`` runs a process of a name from its factory, ``listeners`` get every change of
        the store, and ``guard`` authorizes every request."""
        self.env = env
        self.settings = settings
        self.partitions = partitions or Partitions()
        self._database = str(database)
        self._transport_factory = transport_factory
        self._supervise = supervise or (lambda _, build: build(env))
        self._listeners = listeners
        self._roles = Roles()
        self._authorizer = guard(self._roles)
        self._worker = worker
        self.routes = routes or RouteTable()
        self._server: ApiServer | None = None
        self._store: Store | None = None
        self._tokens: dict[str, str] = {}
        self._registries: dict[str, MetricsRegistry] = {}
        self.providers = CellProviders(
            self.partitions, env, lambda plane: self.client(plane, ADMIN)
        )
        self._start_limiter = StartLimiter(STARTS_PER_TURN)
        self.console: Handler | None = None
        """Answers requests for a link to the console."""
        self._new_projects: asyncio.Queue[str] = asyncio.Queue()
        self._is_setup_removed = asyncio.Event()

    @property
    def server(self) -> ApiServer:
        if self._server is None:
            raise RuntimeError("the platform does not run")
        return self._server

    @property
    def store(self) -> Store:
        if self._store is None:
            raise RuntimeError("the platform does not run")
        return self._store

    @asynccontextmanager
    async def run(self, *, admin_token: str) -> AsyncIterator[LocalPlatform]:
        store = self._store = open_store(self.settings.storage, self.env, self._database)
        for listener in (*self._listeners, self._on_change):
            store.subscribe(listener)
        try:
            users = LocalUsers(self.env, store, self._roles)
            verbs = LocalVerbs(
                self.env,
                self.settings,
                lambda: sorted(store.planes),
                self.partitions,
                users,
                lambda: self.console,
                lambda: self.routes.urls(self.settings.router_port),
            )
            self._server = ApiServer(
                self.env,
                store,
                crds_for=crds.crds_for,
                authorizer=self._authorizer,
                local=verbs.handle,
                metrics=self._metrics,
                logs=self.providers.as_logs(),
                commands=self.providers.as_commands(),
                worker=self._worker,
                admissions=self.admissions(),
                token_key=access.token_hash(f"service accounts {admin_token}"),
            )
            self._tokens = {ADMIN: admin_token}
            self._server.add_user(ADMIN, (access.MASTERS,), admin_token)
            for plane in self.settings.planes:
                self._server.ensure_plane(plane)
            async with TaskGroup("local platform") as tasks:
                server = tasks.start(self._server.run(), name="apiserver")
                await self._bootstrap_planes()
                users.restore()
                preparation = tasks.start(self._prepare_new_projects(), name="new projects")
                restoration = tasks.start(self._restore_setup(), name="restored setup")
                processes = {name: self._supervise(name, build) for name, build in self.processes()}
                running = [tasks.start(each.run(), name=name) for name, each in processes.items()]
                await self._bootstrap_project()
                await self._wait_usable()
                late = [each.process for each in STAND_INS if each.needs_all_cells]
                for name, process in processes.items():
                    if name not in late or not self.partitions.cells:
                        await process.wait_ready()
                try:
                    yield self
                finally:
                    await tasks.stop(server, preparation, restoration, *running)
        finally:
            self._server = None
            store.close()

    def abandon(self) -> None:
        """Close the file as a killed process does; for simulations of a crash."""
        if self._store is not None:
            self._store.close()

    def client(self, plane: str, user: str, *, process: str = "", at: str = CENTRE) -> Client:
        """A client of a plane for a user whose token is valid in this run only. ``process`` is the
        process that uses it, by default the one of the user's name, and ``at`` the cell it runs
        in."""
        transport = self._transport_factory(self.server.handle, process or user, plane)
        crossed = _cell_crossed(plane, at)
        if crossed and user != ADMIN:
            transport = self.partitions.transport(transport, crossed)
        return ApiClient(
            transport,
            cluster=planes.cluster_name(plane),
            prefix=planes.plane_prefix(plane),
            token=self.token(user),
            user_agent=user,
            field_manager=user,
        )

    def admissions(self) -> tuple[Admission, ...]:
        return (
            admission.build_admission(self._workload_reviewer),
            admission.build_claim_admission(self._claim_reviewer),
        )

    def _workload_reviewer(self, project: str) -> Client:
        return self._reviewer(PROJECT.plane(project), rights.WEBHOOKS)

    def _claim_reviewer(self) -> Client:
        return self._reviewer(ROOT.plane(), QUOTA)

    def _reviewer(self, plane: str, user: str) -> Client:
        """For the API server's own admission, with no network in between."""
        return ApiClient(
            InProcessTransport(self.server.handle),
            cluster=planes.cluster_name(plane),
            prefix=planes.plane_prefix(plane),
            token=self.token(user),
            user_agent=user,
        )

    def token(self, user: str) -> str:
        """The token of a user of this run, with the rights of the process of that name."""
        token = self._tokens.get(user)
        if token is None:
            token = self._tokens[user] = self.env.new_token()
            self.server.add_user(user, (access.CONTROLLERS,), token)
            for plane, rules in rights.of_user(user).items():
                self._roles.grant(user, plane, rules)
        return token

    def processes(self) -> list[tuple[str, ManagerFactory]]:
        """Everything that runs beside the API server, in the order of its start."""
        cells = self.settings.cells
        return [
            *((each.process, partial(self._stand_in, each)) for each in STAND_INS),
            *self.controllers(),
            *((f"{rights.PROVIDER}-{cell}", partial(self._provider, cell)) for cell in cells),
            *([(rights.ROUTER, self._router)] if self.settings.router_port else []),
        ]

    def controllers(self) -> list[tuple[str, ManagerFactory]]:
        cells = self.settings.cells
        return [
            (rights.MANAGEMENT, self._management),
            *((f"{rights.CELL}-{cell}", partial(self._cell, cell)) for cell in cells),
        ]

    async def _bootstrap_planes(self) -> None:
        await bootstrap.ensure_root(self.client(ROOT.plane(), ADMIN), self.settings)
        await bootstrap.ensure_hub(self.client(HUB.plane(), ADMIN), self.settings)
        for city, cell in zip(self.settings.cities, self.settings.cells, strict=True):
            await bootstrap.ensure_location(self.client(CELL.plane(cell), ADMIN), city)

    async def _bootstrap_project(self) -> None:
        project = PROJECT.plane(self.settings.project)
        await bootstrap.ensure_project(self.client(project, ADMIN), self.env, self.settings)
        for name in await bootstrap.prepared_projects(self.client(ROOT.plane(), ADMIN)):
            await self._prepare_project(name)

    async def _prepare_project(self, name: str) -> None:
        project_client = self.client(PROJECT.plane(name), ADMIN)
        await bootstrap.ensure_further_project(project_client, self.env, self.settings)

    def _on_change(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        is_project = plane.name == ROOT.plane() and table.resource == _PROJECTS
        if is_project and event.before is None and not event.deleted:
            self._new_projects.put_nowait(event.after.name)
        if event.deleted and self.restores_setup and _is_setup(plane.name, table.resource):
            self._is_setup_removed.set()

    async def _restore_setup(self) -> None:
        """Create what the platform consists of again, when a user has deleted some of it."""
        while True:
            await self._is_setup_removed.wait()
            await asyncio.sleep(RESTORE_SECONDS)
            self._is_setup_removed.clear()
            try:
                self.server.refresh_planes()
                await self._bootstrap_planes()
            except (errors.ClientError, ApiError) as error:  # a definition is still being deleted
                _log.warning("setup not restored yet", error=str(error))
                self._is_setup_removed.set()

    async def _prepare_new_projects(self) -> None:
        """Give a project that asks for it what the platform's own has, apart from its quota."""
        root_client = self.client(ROOT.plane(), ADMIN)
        while True:
            name = await self._new_projects.get()
            try:
                if name in await bootstrap.prepared_projects(root_client):
                    await self._prepare_project(name)
            except errors.ClientError as error:  # it is deleted already
                _log.warning("project not prepared", project=name, error=str(error))

    async def _wait_usable(self) -> None:
        """Until the project's plane is ready and every cell answers the hub."""
        root_client, hub_client = self.client(ROOT.plane(), ADMIN), self.client(HUB.plane(), ADMIN)
        await _wait_ready(root_client, resourcemanager.PROJECTS, {self.settings.project})
        reachable = set(self.settings.cells) - set(self.partitions.cells)
        await _wait_ready(hub_client, karmada.CLUSTERS, reachable)

    def _fleets(
        self, user: str, env: Environment, *, process: str = "", at: str = CENTRE
    ) -> PlaneFleets:
        return PlaneFleets(
            self.client,
            self.settings,
            env,
            user,
            process=process,
            at=at,
            platform=platform_mark(self._database),
        )

    def _manager(self, name: str, env: Environment, *, start_rank: int = 0) -> Manager:
        """A manager with its own metrics, as a process has."""
        registry = self._registries[name] = MetricsRegistry()
        return Manager(
            name,
            env,
            metrics=registry,
            start_limiter=self._start_limiter,
            start_rank=start_rank,
        )

    def _metrics(self) -> str:
        return render(*(self._registries[name] for name in sorted(self._registries)))

    def _stand_in(self, stand_in: StandIn, env: Environment) -> Manager:
        user, process = stand_in.user or stand_in.process, stand_in.process
        manager = self._manager(process, env)
        manager.add(*stand_in.controllers(self._fleets(user, env, process=process)))
        return manager

    def _management(self, env: Environment) -> Manager:
        manager = self._manager("management", env)
        fleets = self._fleets(rights.MANAGEMENT, env)
        add_management(manager, env, projects=fleets.projects(), hub=fleets.hub())
        return manager

    def _cell(self, cell: str, env: Environment) -> Manager:
        user = f"{rights.CELL}-{cell}"
        manager = self._manager(f"cell-{cell}", env, start_rank=CELL_RANK)
        self._add_cell(manager, cell, user, env, federated=True)
        return manager

    def _add_cell(
        self, manager: Manager, cell: str, user: str, env: Environment, *, federated: bool
    ) -> None:
        fleets = self._fleets(user, env, at=cell)
        hub = fleets.hub() if federated else None
        add_cell(
            manager,
            env,
            cell=fleets.own_cell(),
            cluster_name=cell,
            networking=self.networking,
            hub=hub,
            project_client=fleets.project_client if self.quota else None,
        )

    def _router(self, env: Environment) -> Manager:
        manager = self._manager("router", env)
        projects = self._fleets(rights.ROUTER, env).projects()
        manager.add(router_controller(projects, self.routes, self.settings.router_port))
        return manager

    def _provider(self, cell: str, env: Environment) -> Manager:
        user = f"{rights.PROVIDER}-{cell}"
        manager = self._manager(user, env, start_rank=PROVIDER_RANK)
        own = self._fleets(user, env, at=cell).own_cell()
        context = ProviderContext(
            cell,
            own,
            env,
            networking=self.networking,
            platform=platform_mark(self._database),
            settings=self.settings.runtime_settings,
        )
        provider = add_provider(manager, self.settings.runtime, context)
        self.providers.set_provider(cell, provider)
        return manager


def _is_setup(plane: str, resource: str) -> bool:
    """Whether the platform itself creates objects of this resource, besides those of projects."""
    return resource == _DEFINITIONS or (plane == HUB.plane() and resource in _HUB_SETUP)


def _cell_crossed(plane: str, at: str) -> str:
    """The cell whose partition affects a call from ``at`` to this plane, if any."""
    beyond = planes.cluster_name(plane) if planes.plane_type(plane) is CELL else CENTRE
    return "" if beyond == at else at or beyond
