"""Processes on one virtual loop, of which one is frozen at a chosen step.

A process is everything that runs in a context with its name: tasks, callbacks and timers
inherit it. To freeze one is to let none of that run for a while, as if its machine had been
suspended: requests it has sent go on at the server, timers of others pass, and when it
wakes, everything it missed is there at once.

The server is not part of any process: a request is carried out by a task of the server's,
so that what was sent happens however the sender fares.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from datum_compute.client.transport import Handler, HttpRequest, HttpResponse
from datum_compute.testing.loop import VirtualLoop

T = TypeVar("T")

_process: ContextVar[str] = ContextVar("process", default="")


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
        due = [timer for timer in self._scheduled if timer.when() <= self.time()]
        for timer in sorted(due):
            self._scheduled.remove(timer)
            timer._scheduled = False  # type: ignore[attr-defined]  # its cancel() looks at it
            if timer.cancelled():
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(timer)
        heapq.heapify(self._scheduled)

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
    """What a process of its own sends: carried out by the server's own task, and logged.

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
