"""The real embedded API server, for tests of everything that talks to one.

Without sockets on virtual time::

    async with embedded_server() as embedded:
        project_client = embedded.client("project/demo")
        await project_client.create(...)

and, in a test marked ``realtime``, over HTTPS with :meth:`EmbeddedServer.serve_https`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from datum_compute.api import crds, planes
from datum_compute.api.planes import CELL, HUB, ROOT
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.apiserver.http.listener import serve
from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.objects.planes import CrdsFor
from datum_compute.apiserver.request import access
from datum_compute.apiserver.request.admission import Admission
from datum_compute.apiserver.server import ApiServer
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.apiserver.verbs.exec import ExecSubresource
from datum_compute.apiserver.verbs.logs import LogSubresource
from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.env import Environment
from datum_compute.testing.environment import SimulatedEnvironment

ADMIN = "admin"
PROJECT = "demo"
CELLS = ("dfw", "lhr")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a served server, and the credentials of its administrator."""

    base_url: str
    ca_pem: bytes
    token: str


class EmbeddedServer:
    """A running server with an administrator and the planes of a test."""

    def __init__(self, server: ApiServer, store: LogStore, env: Environment) -> None:
        self.server = server
        self.store = store
        self.env = env
        self._tokens: dict[str, str] = {}

    def client(self, plane: str, user: str = ADMIN) -> ApiClient:
        """A client of a plane (``root``, ``hub``, ``project/demo``, ``cell/dfw``), in process.
        Other users are created on first use, and may do everything too."""
        return ApiClient(
            InProcessTransport(self.server.handle),
            cluster=planes.cluster_name(plane),
            prefix=planes.plane_prefix(plane),
            token=self.token(user),
            user_agent=user,
        )

    def token(self, user: str = ADMIN, groups: Sequence[str] = (access.MASTERS,)) -> str:
        """The user's bearer token; the user is created, in these groups, on first use."""
        token = self._tokens.get(user)
        if token is None:
            token = self._tokens[user] = self.env.new_token()
            self.server.add_user(user, groups, token)
        return token

    async def create_project(self, name: str) -> None:
        """Create a Project, and with it its plane."""
        owner = {"kind": "Organization", "name": "local"}
        await self.client(ROOT.plane()).create(
            resourcemanager.PROJECTS, {"metadata": {"name": name}, "spec": {"ownerRef": owner}}
        )

    @asynccontextmanager
    async def serve_https(self, port: int = 0) -> AsyncIterator[ServerAddress]:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            async with serve(self.server, self.env, directory=directory, ports=[port]) as found:
                ca_pem = (directory / "ca.crt").read_bytes()
                yield ServerAddress(f"https://127.0.0.1:{found}", ca_pem, self.token())


@asynccontextmanager
async def embedded_server(
    env: Environment | None = None,
    path: Path | str | None = None,
    *,
    crds_for: CrdsFor = crds.crds_for,
    cells: Sequence[str] = CELLS,
    projects: Sequence[str] = (PROJECT,),
    authorizer: access.Authorizer | None = None,
    admissions: Sequence[Admission] = (),
    logs: LogSubresource | None = None,
    commands: ExecSubresource | None = None,
    extra_kinds: Sequence[ServedKind] = (),
    worker: WorkerProcess | None = None,
) -> AsyncIterator[EmbeddedServer]:
    """Root, hub, the cells and the projects on one store, with collection running.

    Without a path the store is in memory. ``crds_for`` gives the definitions per plane type,
    ``extra_kinds`` are built-in besides those of the server.
    """
    env = env or SimulatedEnvironment()
    store = LogStore(env, str(path) if path is not None else ":memory:")
    server = ApiServer(
        env,
        store,
        crds_for=crds_for,
        authorizer=authorizer,
        admissions=admissions,
        logs=logs,
        commands=commands,
        extra_kinds=extra_kinds,
        worker=worker,
    )
    embedded = EmbeddedServer(server, store, env)
    for plane in (ROOT.plane(), HUB.plane(), *map(CELL.plane, cells)):
        server.ensure_plane(plane)
    work = asyncio.create_task(server.run(), name="apiserver")
    try:
        for project in projects:
            if store.planes.get(planes.PROJECT.plane(project)) is None:
                await embedded.create_project(project)
        yield embedded
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        store.close()
