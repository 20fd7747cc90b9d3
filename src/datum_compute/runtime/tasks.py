"""Task groups that stop in order.

``asyncio.TaskGroup`` cancels its children in the order of a set, which is the order of
memory addresses. Here children are stopped in the reverse order of their start, one after
the other and each awaited, so that what was built last is taken down first, every time the
same. The first error wins and is raised as itself; later ones become notes on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class TaskGroup:
    """``async with TaskGroup("name") as tasks: tasks.start(...)``.

    Leaving the block waits for all children. When the block or a child fails, or the
    owner is cancelled, all children are stopped before the block is left.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._children: dict[asyncio.Task[Any], None] = {}
        self._parent: asyncio.Task[Any] | None = None
        self._error: BaseException | None = None
        self._interrupted = False  # whether the group cancelled the parent
        self._closed = False
        self._empty: asyncio.Future[None] | None = None

    async def __aenter__(self) -> TaskGroup:
        self._parent = asyncio.current_task()
        return self

    def start(self, coro: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        if self._parent is None or self._closed:
            coro.close()
            raise RuntimeError(f"task group {self.name!r} does not run: cannot start {name!r}")
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._children[task] = None
        task.add_done_callback(self._ended)
        return task

    async def stop(self, *tasks: asyncio.Task[Any]) -> None:
        """Stop some of the children, last one first; returns when they have ended."""
        await stop_tasks(tasks)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is None:
            try:
                await self._wait_empty()
            except asyncio.CancelledError as cancelled:
                error = cancelled
        self._closed = True
        if error is not None and not isinstance(error, asyncio.CancelledError):
            self._remember(error)
        try:
            await stop_tasks(list(self._children))
        except asyncio.CancelledError as cancelled:
            error = error or cancelled
        if self._interrupted and self._parent is not None:
            self._parent.uncancel()
        if self._error is not None and self._error is not error:
            raise self._error
        if error is not None and kind is None:
            raise error
        return False

    async def _wait_empty(self) -> None:
        while self._children and self._error is None:
            self._empty = asyncio.get_running_loop().create_future()
            await self._empty

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._children[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._remember(error)
            self._interrupt()
        if self._empty is not None and not self._empty.done() and not self._children:
            self._empty.set_result(None)

    def _remember(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        elif error is not self._error:
            self._error.add_note(f"afterwards in {self.name}: {error!r}")

    def _interrupt(self) -> None:
        if self._closed or self._interrupted or self._parent is None or self._parent.done():
            return
        self._interrupted = True
        self._parent.cancel()


async def stop_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel each task, last one first, and wait for it to end before the next.

    Errors stay with the tasks, for their owner. A cancellation that arrives meanwhile is
    raised when all have ended: what has begun to stop is never left behind.
    """
    cancelled: asyncio.CancelledError | None = None
    for task in reversed(list(tasks)):
        task.cancel()
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled


async def gather_all(calls: Iterable[Awaitable[T]], *, parallel: int | None = None) -> list[T]:
    """The results of calls that run side by side, at most ``parallel`` at a time.

    Unlike ``asyncio.gather`` it returns, or raises the first error, only when every call has
    ended: none continues after the return.
    """
    given = list(calls)
    limit = asyncio.Semaphore(parallel or max(1, len(given)))

    async def limited(call: Awaitable[T]) -> T:
        async with limit:
            return await call

    results: list[T] = []
    try:
        for result in await asyncio.gather(*map(limited, given), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            results.append(result)
    finally:
        for call in given:  # those that a cancellation kept from starting
            if asyncio.iscoroutine(call):
                call.close()
    return results
