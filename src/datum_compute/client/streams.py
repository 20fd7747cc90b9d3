"""Waits that are ended from outside: of a stream's reader, and of a block that takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from datum_compute.client.transport import close_stream

T = TypeVar("T")


class InterruptibleStream(Generic[T]):
    """A stream that can be ended from outside, not only by its source.

    A pending read is interrupted by cancelling its task, as ``asyncio.timeout`` does: a task
    or a timer for each item would cost every item.
    """

    __slots__ = ("_inner", "_reader", "_reason")

    def __init__(self, inner: AsyncIterator[T]) -> None:
        self._inner = inner
        self._reader: asyncio.Task[Any] | None = None
        self._reason: Exception | None = None

    @property
    def is_being_read(self) -> bool:
        return self._reader is not None

    def interrupt(self, reason: Exception) -> None:
        """Raise ``reason`` from the pending read and from every later one; with
        ``StopAsyncIteration`` the stream ends. Only the first call counts."""
        if self._reason is None:
            self._reason = reason
            if self._reader is not None:
                self._reader.cancel()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        if self._reason is not None:
            raise self._reason
        task = self._reader = asyncio.current_task()
        assert task is not None, "a stream is read in a task"
        cancelled_before = task.cancelling()
        try:
            return await anext(self._inner)
        except asyncio.CancelledError as error:
            # Ours, unless the task is cancelled by others as well.
            reason = self._interruption()
            if reason is not None and task.uncancel() <= cancelled_before:
                raise reason from error
            raise
        finally:
            self._reader = None

    async def aclose(self) -> None:
        await close_stream(self._inner)

    def _interruption(self) -> Exception | None:
        return self._reason


class Deadline:
    """``with Deadline(seconds):`` raises ``TimeoutError`` where the block takes longer. None is no
    limit. As with ``asyncio.timeout``, a cancellation by others stays one; that costs two
    coroutines and a dozen calls more, for each of many requests."""

    __slots__ = ("_cancelling", "_has_passed", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._has_passed = False

    def __enter__(self) -> Self:
        if self._seconds is not None:
            task = asyncio.current_task()
            assert task is not None, "a deadline is set in a task"
            self._task: asyncio.Task[Any] = task
            self._cancelling = task.cancelling()
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._pass)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._has_passed:
            is_ours = self._task.uncancel() <= self._cancelling
            if is_ours and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _pass(self) -> None:
        self._has_passed = True
        self._task.cancel()
