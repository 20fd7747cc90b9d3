"""The API server as one object: planes, users, requests, and background work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from datum_compute.apiserver.handler import RequestHandler
from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.objects.expiry import EventExpiry
from datum_compute.apiserver.objects.gc import GarbageCollector
from datum_compute.apiserver.objects.planes import CrdsFor, PlaneRegistry
from datum_compute.apiserver.request import access
from datum_compute.apiserver.request.access import Authorizer
from datum_compute.apiserver.request.admission import Admission
from datum_compute.apiserver.request.roles import Roles
from datum_compute.apiserver.request.tokens import ServiceAccountTokens
from datum_compute.apiserver.storage.protocol import Store, StoreFull
from datum_compute.apiserver.verbs.exec import ExecSubresource
from datum_compute.apiserver.verbs.logs import LogSubresource
from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse
from datum_compute.env import Environment

COMPACTION_SECONDS = 10.0
"""How often history is compacted. A guess: often enough that each time is short."""


class ApiServer:
    """Many planes on one store.

    :meth:`handle` serves requests from construction on; :meth:`run` must run for garbage to be
    collected and history to be compacted.
    """

    def __init__(
        self,
        env: Environment,
        store: Store,
        *,
        crds_for: CrdsFor,
        authorizer: Authorizer | None = None,
        local: Handler | None = None,
        admissions: Sequence[Admission] = (),
        metrics: Callable[[], str] | None = None,
        logs: LogSubresource | None = None,
        commands: ExecSubresource | None = None,
        worker: WorkerProcess | None = None,
        extra_kinds: Sequence[ServedKind] = (),
        token_key: bytes = b"",
    ) -> None:
        """Without a ``worker`` every request runs on the loop, however long it takes.
        ``extra_kinds`` are built-in on every plane, besides those that the server has.
        ``token_key`` signs the tokens of service accounts; without one, those of an earlier start
        are not valid."""
        self._store = store
        self._worker = worker
        self._planes = PlaneRegistry(env, store, crds_for, extra_kinds)
        self._collector = GarbageCollector(store, self._planes)
        self._expiry = EventExpiry(env, store, self._planes)
        self._handler = RequestHandler(
            env,
            store,
            self._planes,
            authorizer or Roles(),
            local,
            admissions,
            metrics,
            logs,
            commands,
            worker,
            tokens=ServiceAccountTokens(env, store, token_key or env.new_token().encode()),
        )

    def handle(self, request: HttpRequest) -> Coroutine[Any, Any, HttpResponse]:
        """The server's side of both transports."""
        return self._handler.handle(request)

    def answer_now(self, request: HttpRequest) -> HttpResponse | None:
        """The response where there is nothing to wait for; None where :meth:`handle` gives it."""
        return self._handler.answer_now(request)

    def ensure_plane(self, name: str) -> None:
        """Create the plane, or bring it up to date. Served at once, durable with the next
        response to any client."""
        self._planes.ensure(name)

    def refresh_planes(self) -> None:
        """Bring every plane up to its type, as at a start."""
        self._planes.refresh()

    def add_user(self, name: str, groups: Sequence[str], token: str) -> None:
        """Authenticate this token as the user, instead of any token before. Durable on return."""
        self._store.add_user(name, groups, access.token_hash(token))

    def end_watches(self) -> None:
        """End every open watch, followed log and command cleanly, as before a shutdown."""
        for plane in self._planes.all():
            plane.store.end_watches()

    async def run(self) -> None:
        """Collect garbage, expire Events and compact history until cancelled. Ends if the
        store breaks."""
        try:
            await self._run()
        finally:
            if self._worker is not None:
                await self._worker.close()

    async def _run(self) -> None:
        self._planes.refresh()
        self._collector.scan()
        self._expiry.scan()
        loop = asyncio.get_running_loop()
        compact_at = loop.time() + COMPACTION_SECONDS
        while True:
            try:
                await self._collector.drain()
                if loop.time() >= compact_at:
                    await self._compact()
                    compact_at = loop.time() + COMPACTION_SECONDS
            except StoreFull:
                await self._store.wait_for_room()
                continue
            try:
                async with asyncio.timeout_at(compact_at):
                    await self._collector.wait()
            except TimeoutError:
                pass  # nothing to collect; time to compact

    async def _compact(self) -> None:
        while self._expiry.expire():
            await self._store.wait_durable()
            await asyncio.sleep(0)
        more = True
        while more:
            more = self._store.compact_step()
            await asyncio.sleep(0)  # requests go first
