"""The embedded server as a target: in process, or over HTTPS from another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from datum_compute.api.planes import HUB
from datum_compute.apiserver.request.roles import Roles
from datum_compute.apiserver.storage.sqlite.plane import CompactionStep
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.transport import Transport
from datum_compute.testing.server import EmbeddedServer, ServerAddress, embedded_server
from tests.support.client_conformance.fixture import ConformanceTarget

PREFIX = "/clusters/hub"


@asynccontextmanager
async def in_process() -> AsyncIterator[ConformanceTarget]:
    async with _small_server() as embedded:

        async def forget_history() -> None:
            _forget(embedded)

        transport = InProcessTransport(embedded.server.handle)
        powerless = embedded.token("powerless", groups=())
        yield _target(transport, embedded.token(), powerless, forget_history)


class HttpsServer:
    """A server on its own loop in its own thread, as another process would be."""

    def __init__(self, embedded: EmbeddedServer, address: ServerAddress) -> None:
        self.address = address
        self.powerless_token = embedded.token("powerless", groups=())
        self._embedded = embedded
        self._loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def target(self) -> AsyncIterator[ConformanceTarget]:
        async def forget_history() -> None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._forget(), self._loop))

        transport = HttpTransport(self.address.base_url, ca_pem=self.address.ca_pem)
        try:
            yield _target(transport, self.address.token, self.powerless_token, forget_history)
        finally:
            await transport.close()

    async def _forget(self) -> None:
        _forget(self._embedded)


@contextmanager
def https_server() -> Iterator[HttpsServer]:
    started: list[HttpsServer] = []
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(done.set))
        async with _small_server() as embedded, embedded.serve_https() as address:
            started.append(HttpsServer(embedded, address))
            ready.set()
            await done.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()  # a failed start must not leave the test waiting

    thread = threading.Thread(target=run)
    thread.start()
    try:
        ready.wait(30)
        yield started[0]
    finally:
        stop[0]()
        thread.join()


def _small_server() -> Any:
    # A user without any grant on a plane does not learn that it exists.
    roles = Roles()
    roles.grant("powerless", HUB.plane(), ())
    # The suite brings its own kind; a plane without any others starts quickest.
    return embedded_server(crds_for=lambda plane_type: [], cells=(), projects=(), authorizer=roles)


def _forget(embedded: EmbeddedServer) -> None:
    """Give up all history at once, as compaction does when its time has passed."""
    for plane in embedded.store.planes.values():
        while plane.compacted < plane.committed:
            plane.compact(2**62, CompactionStep(), 10**9)


def _target(
    transport: Transport,
    token: str,
    powerless: str,
    forget_history: Callable[[], Awaitable[None]],
) -> ConformanceTarget:
    def client_with(**options: Any) -> ApiClient:
        return ApiClient(
            transport, **{"cluster": "hub", "prefix": PREFIX, "token": token, **options}
        )

    return ConformanceTarget(client_with(), client_with, powerless, forget_history)
