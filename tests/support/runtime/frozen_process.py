"""Processes on one virtual loop, of which one is frozen at a chosen step.

A process is everything that runs in a context with its name: tasks, callbacks and timers
inherit it. To freeze one is to let none of that run for a while, as if its machine had been
suspended: requests it has sent go on at the server, timers of others pass, and when it
resumes, everything it missed arrives at once.

The server is not part of any process: a request is carried out by a task of the server's,
so that what was sent happens however the sender fares.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from datum_compute.api import planes
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import Client
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.leadership import (
    FencedTransport,
    Leadership,
    LeadershipLost,
    LeaseName,
)
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import stop_tasks
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import VirtualLoop
from datum_compute.testing.server import EmbeddedServer

T = TypeVar("T")

_process: ContextVar[str] = ContextVar("process", default="")

FROZEN_SECONDS = 40.0


def process_context(name: str) -> Context:
    context = Context()
    context.run(_process.set, name)
    return context


class FreezingLoop(VirtualLoop):
    """Freezes ``victim`` before its step number ``step``, once, for ``seconds``."""

    def __init__(self, victim: str, step: int, seconds: float) -> None:
        super().__init__(limit=3600.0)
        self.steps = 0
        """How many steps the victim has made."""
        self.froze = False
        self._victim = victim
        self._step = step
        self._seconds = seconds
        self._parked: list[asyncio.Handle] | None = None

    def _run_once(self) -> None:
        self._collect()
        for handle in [each for each in self._ready if self._is_victims(each)]:
            if not self.froze and self.steps == self._step:
                self.froze = True
                self._parked = []
                self.call_at(self.time() + self._seconds, self._thaw, context=Context())
            if self._parked is None:
                self.steps += 1
            else:
                self._ready.remove(handle)
                self._parked.append(handle)
        if self._ready:
            super()._run_once()

    def _collect(self) -> None:
        """Bring what is due to the ready ones, as the loop does, but run nothing yet."""
        self._forget_cancelled_timers()
        if not self._ready and not self._stopping:
            self._jump()
        while self._scheduled and self._scheduled[0][0] <= self.time():
            *_, timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]  # its cancel() looks at it
            if timer.cancelled():
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(timer)

    def _thaw(self) -> None:
        parked, self._parked = self._parked or [], None
        self._ready.extend(parked)

    def _is_victims(self, handle: asyncio.Handle) -> bool:
        context: Context = handle._context  # type: ignore[attr-defined]  # no public way
        return context.get(_process, "") == self._victim


def run_with_freeze(
    main: Callable[[], Coroutine[Any, Any, T]], *, victim: str, step: int, seconds: float
) -> tuple[T, FreezingLoop]:
    loop = FreezingLoop(victim, step, seconds)
    asyncio.set_event_loop(loop)
    try:
        result = loop.run_until_complete(loop.create_task(main(), name="main"))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert not loop.unhandled, loop.unhandled
    return result, loop


@dataclass(frozen=True, slots=True)
class HandledRequest:
    """A request as the server carried it out."""

    process: str
    at: float
    request: HttpRequest
    status: int

    @property
    def stored(self) -> bool:
        return self.request.method != "GET" and self.status < 300

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.process} {self.request.method} {self.request.path}"


class ServerTaskTransport:
    """What a separate process sends: carried out by the server's own task, and logged.

    It first waits for a connection, as a transport over sockets may: one more place to freeze.
    """

    def __init__(self, process: str, handler: Handler, log: list[HandledRequest]) -> None:
        self._process = process
        self._handler = handler
        self._log = log

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        if request.before_send is not None:
            request.before_send()
        carried = loop.create_task(self._carry(request), context=Context())
        return await asyncio.shield(carried)

    async def close(self) -> None:
        return None

    async def _carry(self, request: HttpRequest) -> HttpResponse:
        at = asyncio.get_running_loop().time()
        place = len(self._log)
        response = await self._handler(request)
        # The server decides before it first awaits, so the order is that of arrival.
        self._log.insert(place, HandledRequest(self._process, at, request, response.status))
        return response


class Process:
    """A manager with its own lease and clients, as in a process."""

    def __init__(
        self,
        name: str,
        embedded: EmbeddedServer,
        log: list[HandledRequest],
        *,
        seed: int,
        fenced: bool = True,
    ) -> None:
        self.name = name
        self._fenced = fenced
        self.env = SimulatedEnvironment(seed)
        self._embedded = embedded
        self._log = log
        lease = LeaseName("default", "e98b06c6.datumapis.com-cell")
        self.leadership = Leadership(self._client("cell/dfw", fenced=False), lease, name, self.env)

    def client(self, plane: str) -> Client:
        return self._client(plane, fenced=self._fenced)

    def _client(self, plane: str, *, fenced: bool) -> Client:
        carried = ServerTaskTransport(self.name, self._embedded.server.handle, self._log)
        transport: Any = carried
        if fenced:
            transport = FencedTransport(carried, lambda: self.leadership.held())
        return ApiClient(
            transport,
            cluster="cell",
            prefix=planes.plane_prefix(plane),
            token=self._embedded.token(self.name),
        )

    def start(self, *controllers: Controller) -> asyncio.Task[Any]:
        manager = Manager(self.name, self.env, leadership=self.leadership)
        manager.add(*controllers)
        loop = asyncio.get_running_loop()
        return loop.create_task(manager.run(), name=self.name, context=process_context(self.name))


async def stop_managers(tasks: list[asyncio.Task[Any]]) -> None:
    await stop_tasks(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            assert isinstance(error, LeadershipLost), error


def check(log: list[HandledRequest]) -> None:
    """No write by a deposed leader, and none twice."""
    leader = ""
    for arrival in log:
        if arrival.request.method == "GET":
            continue
        if "/leases" in arrival.request.path:
            if arrival.stored:
                leader = arrival.process
        elif arrival.process:
            assert arrival.process == leader, f"{arrival}, while {leader} leads"
    effects = Counter((a.request.method, a.request.path, a.request.body) for a in log if a.stored)
    twice = [key for key, count in effects.items() if count > 1 and "/leases" not in key[1]]
    assert not twice, twice


def steps_of(main: Any) -> int:
    """How many steps the first manager makes when nothing freezes."""
    log, loop = run_with_freeze(main, victim="one", step=-1, seconds=0)
    check(log)
    assert {arrival.process for arrival in log if arrival.stored} == {"one"}
    return loop.steps
