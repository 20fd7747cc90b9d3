"""The worker process, as the server sees it: started when it is needed, and again when it is gone.

It has one task at a time. Tasks wait in one queue for each user, and the users take turns, so
that a user with many delays others by one task each.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

import datum_compute
from datum_compute.apiserver import errors
from datum_compute.apiserver.worker import records
from datum_compute.apiserver.worker.records import Outcome
from datum_compute.log import get_logger

CPU_SECONDS = 10.0
"""Of one task. A guess: ten times what an honest body of 3 MB takes."""
DEADLINE_SECONDS = 120.0
"""For one task, however busy the machine is. A guess."""
WAITING_PER_USER = 16
"""Tasks of one user that wait. A guess; a body may have 3 MB."""

_log = get_logger(__name__)


class _Job:
    __slots__ = ("is_wanted", "message", "outcome")

    def __init__(self, message: bytes, is_wanted: Callable[[], bool]) -> None:
        self.message = message
        self.is_wanted = is_wanted
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()


class WorkerProcess:
    """One process at most. It costs nothing until the first task."""

    def __init__(
        self, *, cpu_seconds: float = CPU_SECONDS, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        self._cpu_seconds = cpu_seconds
        self._deadline = deadline_seconds
        self._ended: list[subprocess.Popen[bytes]] = []
        """Killed, and perhaps not gone yet."""
        self._waiting: dict[str, deque[_Job]] = {}
        self._task: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def run(self, user: str, message: bytes, is_wanted: Callable[[], bool]) -> Outcome:
        """Carry out an encoded task. It is not begun once ``is_wanted`` says no. Raises ApiError:
        429 when too many of the user wait, 504 at the deadline, 500 when the process ends."""
        waiting = self._waiting.setdefault(user, deque())
        if len(waiting) >= WAITING_PER_USER:
            why = f'user "{user}" has {WAITING_PER_USER} large requests waiting'
            raise errors.too_many_requests(why, 1)
        job = _Job(message, is_wanted)
        waiting.append(job)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="worker")
        return await job.outcome

    async def close(self) -> None:
        """End the process and whatever waits for it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for waiting in self._waiting.values():
            for job in waiting:
                _fail(job, _STOPPING)
        self._waiting.clear()
        self._end()
        for process in self._ended:
            process.wait()

    async def _work(self) -> None:
        try:
            while self._waiting:
                user, waiting = next(iter(self._waiting.items()))
                job = waiting.popleft()
                del self._waiting[user]
                if waiting:
                    self._waiting[user] = waiting  # behind the other users
                if not job.outcome.done():
                    await self._carry_out(job)
        finally:
            self._task = None

    async def _carry_out(self, job: _Job) -> None:
        if not job.is_wanted():
            job.outcome.cancel()
            return
        try:
            async with asyncio.timeout(self._deadline):
                outcome = await self._exchange(job.message)
        except TimeoutError:
            self._end()
            seconds = f"{self._deadline:g} s"
            _log.warning("large request ended at its deadline", seconds=seconds)
            message = f"the request takes more than {seconds} to process; nothing was changed"
            _fail(job, errors.ApiError(504, "Timeout", message))
        except (OSError, asyncio.IncompleteReadError) as error:
            self._end()
            _log.error("worker process failed", error=repr(error))
            message = "Internal error occurred: the process for large requests failed"
            _fail(job, errors.ApiError(500, "InternalError", f"{message}; nothing was changed"))
        except BaseException:
            self._end()
            _fail(job, _STOPPING)
            raise
        else:
            if outcome.is_last:
                self._end()
            if not job.outcome.done():
                job.outcome.set_result(outcome)

    async def _exchange(self, message: bytes) -> Outcome:
        if self._reader is None or self._writer is None or self._has_ended():
            self._end()
            self._reader, self._writer = await self._start()
        self._writer.write(len(message).to_bytes(records.LENGTH_BYTES))
        self._writer.write(message)
        await self._writer.drain()
        length = int.from_bytes(await self._reader.readexactly(records.LENGTH_BYTES))
        return records.decode_outcome(await self._reader.readexactly(length))

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    async def _start(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._ended = [process for process in self._ended if process.poll() is None]
        ours, theirs = socket.socketpair()
        try:
            # Not the event loop's: that uses a thread to wait for the exit.
            self._process = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
                [sys.executable, "-m", "datum_compute.apiserver.worker", str(self._cpu_seconds)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                # `-m` searches here first, so that the process runs this same copy.
                cwd=Path(datum_compute.__file__).parents[1],
                start_new_session=True,  # Ctrl-C is for the server
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return await asyncio.open_connection(sock=ours)

    def _end(self) -> None:
        """The process is killed: it stores nothing, so there is nothing to lose."""
        process, self._process = self._process, None
        writer, self._writer = self._writer, None
        self._reader = None
        if writer is not None:
            writer.transport.abort()
        if process is not None and process.poll() is None:
            process.kill()
            self._ended.append(process)


_STOPPING = errors.unavailable("the server is stopping; nothing was changed")


def _fail(job: _Job, error: errors.ApiError) -> None:
    if not job.outcome.done():
        job.outcome.set_exception(error)
