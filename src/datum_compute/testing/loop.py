"""An event loop on virtual time, in an order that a seed determines.

Nothing ever sleeps: when no callback is ready, virtual time jumps to the next timer. When none
is left either, the tasks that still wait would wait for ever, which is an error that names
them; so is work that goes on for ever at one instant. Program and seed determine a run: seed 0
keeps asyncio's plain first-in, first-out order; any other seed permutes, in every round, the
tasks that are ready together. Callbacks that belong to no task keep their order among
themselves, which asyncio promises and libraries rely on.

There are no sockets, threads or executors here; using one raises an error that names it.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from random import Random
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack
from weakref import WeakKeyDictionary

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LIMIT_SECONDS = 2 * 24 * 3600.0
"""Virtual time after which a run is ended, because some wait never ends while a timer goes on. A
guess: far above any scenario, and still reached within seconds."""


ROUNDS_WITHOUT_TIME = 100_000
"""Rounds of ready callbacks in one moment of virtual time after which it is a livelock. A
guess: booting a platform takes about a thousand."""


class Deadlock(Exception):
    """Nothing is ready and no timer is set: what waits now waits for ever."""


class TimeLimitReached(Exception):
    """Virtual time passed the limit of this run."""


class Livelock(Exception):
    """Callbacks run for ever and virtual time does not advance."""


class Unhandled(Exception):
    """A task or callback failed and its error was never retrieved."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in a seeded order on virtual time, which starts at 0."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[tuple[float, int, asyncio.TimerHandle]]
    """When each timer is due, and its number, which keeps the order of creation among those due
    at the same moment."""
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, seed: int = 0, *, limit: float = LIMIT_SECONDS) -> None:
        super().__init__()
        self._now = 0.0
        self._limit = limit
        self._order = Random(seed) if seed else None
        self._timers_made = 0
        self._rounds = 0  # since time last moved
        self._tasks: WeakKeyDictionary[asyncio.Task[Any], None] = WeakKeyDictionary()
        self._tasks_made = 0
        self.unhandled: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.unhandled.append(context))

    def time(self) -> float:
        return self._now

    def pending_tasks(self) -> list[asyncio.Task[Any]]:
        """Tasks that have not ended, in the order of their creation."""
        return [task for task in list(self._tasks) if not task.done()]

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        # asyncio numbers unnamed tasks per process; here a name must not depend on earlier runs.
        self._tasks_made += 1
        label = f"Task-{self._tasks_made}" if name is None else str(name)
        task: asyncio.Task[Any] = super().create_task(coro, name=label, context=context)
        self._tasks[task] = None
        return task

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        # As the base class does, without its checks for debugging: half the calls of a run.
        self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        self._timers_made += 1
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, (when, self._timers_made, timer))
        timer._scheduled = True  # type: ignore[attr-defined]  # its cancel() reads it
        return timer

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> NoReturn:
        _refuse("call_soon_threadsafe", "there are no other threads")

    def run_in_executor(
        self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> NoReturn:
        _refuse("run_in_executor", "there are no threads")

    def _run_once(self) -> None:
        self._forget_cancelled_timers()
        self._rounds += 1
        if not self._ready and not self._stopping:
            self._jump()
        elif self._rounds > ROUNDS_WITHOUT_TIME:
            self._rounds = 0  # what stops the loop now may need some more
            raise Livelock(f"at {self._now:g}: {_describe(self.pending_tasks(), _BUSY)}")
        scheduled, now = self._scheduled, self._now
        while scheduled and scheduled[0][0] <= now:
            timer = heapq.heappop(scheduled)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            if timer.cancelled():
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(timer)
        batch = list(self._ready)
        self._ready.clear()
        if self._order is not None and len(batch) > 1:
            batch = _permuted(batch, self._order)
        handle: asyncio.Handle | None
        for handle in batch:
            if not handle._cancelled:
                handle._run()
        # The traceback of a task's error may keep this frame, which would keep the task: its error
        # was then never reported as unretrieved.
        batch.clear()
        handle = None

    def _jump(self) -> None:
        if not self._scheduled:
            raise Deadlock(_describe(self.pending_tasks()))
        when = self._scheduled[0][0]
        if when > self._now:
            self._now = when
            self._rounds = 0
        if self._now > self._limit:
            waiting = _describe(self.pending_tasks())
            raise TimeLimitReached(f"{self._limit:g} virtual seconds have passed; {waiting}")

    def _forget_cancelled_timers(self) -> None:
        # Most timeouts are cancelled long before they are due; drop them in bulk.
        cancelled = self._timer_cancelled_count
        if cancelled > 100 and cancelled * 2 > len(self._scheduled):
            kept = []
            for entry in self._scheduled:
                if entry[2].cancelled():
                    entry[2]._scheduled = False  # type: ignore[attr-defined]
                else:
                    kept.append(entry)
            heapq.heapify(kept)
            self._scheduled = kept
            self._timer_cancelled_count = 0
        while self._scheduled and self._scheduled[0][2].cancelled():
            heapq.heappop(self._scheduled)[2]._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        # The base class goes through call_soon_threadsafe, for collectors in other threads.
        if not self.is_closed():
            self.call_soon(self.create_task, agen.aclose())

    def _write_to_self(self) -> None:
        """Nothing sleeps, so nothing needs waking."""

    def _process_events(self, event_list: Any) -> None:
        """There are no sockets, hence no events."""


def _refuse(method: str, why: str) -> NoReturn:
    raise RuntimeError(f"VirtualLoop.{method}: {why} on virtual time")


def _permuted(batch: list[asyncio.Handle], order: Random) -> list[asyncio.Handle]:
    numbered = [(handle, _belongs_to_task(handle)) for handle in batch]
    free = iter([handle for handle, belongs in numbered if not belongs])
    order.shuffle(numbered)
    return [handle if belongs else next(free) for handle, belongs in numbered]


def _belongs_to_task(handle: asyncio.Handle) -> bool:
    callback = handle._callback  # type: ignore[attr-defined]  # asyncio has no public way
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


_BUSY = "these tasks exist while virtual time does not advance"


def _describe(tasks: list[asyncio.Task[Any]], what: str = "these tasks wait for ever") -> str:
    if not tasks:
        return "no task is pending"
    lines = []
    for task in tasks:
        frames = task.get_stack(limit=1)
        where = f" at {frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else ""
        coro: Any = task.get_coro()
        lines.append(f"  {task.get_name()}: {getattr(coro, '__qualname__', coro)}{where}")
    return f"{what}:\n" + "\n".join(lines)


def run(coro: Coroutine[Any, Any, T], *, seed: int = 0, limit: float = LIMIT_SECONDS) -> T:
    """Run to the end on a fresh :class:`VirtualLoop`, as ``asyncio.run`` would.

    Tasks left over are cancelled and awaited. An error that was never retrieved fails the run.
    """
    loop = VirtualLoop(seed, limit=limit)
    asyncio.set_event_loop(loop)
    try:
        try:
            result: T = loop.run_until_complete(loop.create_task(coro, name="main"))
        finally:
            _cancel_leftovers(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    if loop.unhandled:
        _raise_unhandled(loop.unhandled)
    return result


def _cancel_leftovers(loop: VirtualLoop) -> None:
    leftovers = loop.pending_tasks()
    if not leftovers:
        return
    for task in leftovers:
        task.cancel()
    loop.run_until_complete(_ended(leftovers))
    for task in leftovers:
        if not task.cancelled() and (error := task.exception()) is not None:
            loop.unhandled.append(
                {"message": f"task {task.get_name()} failed while cancelled", "exception": error}
            )


async def _ended(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks)


def _raise_unhandled(contexts: list[dict[str, Any]]) -> NoReturn:
    message = "; ".join(str(context.get("message", "")) for context in contexts)
    errors = [context["exception"] for context in contexts if "exception" in context]
    raise Unhandled(message) from (errors[0] if errors else None)
