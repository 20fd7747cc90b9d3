"""A network between named processes and the planes they talk to, under the client protocol.

A process's client of a plane gets its transport from :meth:`SimulatedNetwork.transport`. A task
of the network delivers each message: a caller that times out or crashes cannot withdraw its
request. A message is delayed, lost, duplicated or blocked by the :mod:`faults
<.network_faults>` and the partitions; messages of a watch arrive in order, late by the watch's
lag, and stop or break at a partition.

A killed process has no further effects: its transports refuse and its watches end. What it sent
before may still arrive. When it is started again it gets new transports.

Random numbers come from one stream per process and plane, and the trace records what they decide,
so one seed always gives the same run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any

from datum_compute.client import errors
from datum_compute.client.transport import HttpRequest, HttpResponse, Transport, close_stream
from datum_compute.env import Environment
from datum_compute.runtime.tasks import TaskGroup, stop_tasks
from datum_compute.testing.network_faults import (
    LATE_SECONDS,
    NO_FAULTS,
    SLOW_SECONDS,
    NetworkFaults,
)
from datum_compute.testing.trace import Trace

GIVE_UP_SECONDS = 120.0
"""How long a caller without a deadline waits for a lost reply; TCP takes longer."""

DOUBLED = frozenset({"PUT", "PATCH", "DELETE"})
"""Methods that a proxy retries when it gets no reply. A create arrives twice only as a stray."""


_Answer = HttpResponse | errors.TransportFailure
"""A failure is a value here: an exception whose caller has ended would go unretrieved."""


class Direction(StrEnum):
    BOTH = "both"
    THERE = "there"
    """From the first side to the second."""
    BACK = "back"


@dataclass(frozen=True)
class Partition:
    """Two groups of processes and planes, by name, between which messages do not pass."""

    number: int
    left: frozenset[str]
    right: frozenset[str]
    direction: Direction
    silent: bool
    """Messages vanish, and watches stall; otherwise connections are refused and broken."""

    def stops(self, sender: str, receiver: str) -> bool:
        there = sender in self.left and receiver in self.right
        back = sender in self.right and receiver in self.left
        return (there and self.direction is not Direction.BACK) or (
            back and self.direction is not Direction.THERE
        )


class SimulatedNetwork:
    """``async with SimulatedNetwork(env) as network:`` owns the messages under way."""

    def __init__(
        self, env: Environment, trace: Trace | None = None, faults: NetworkFaults = NO_FAULTS
    ) -> None:
        self.env = env
        self.trace = trace or Trace()
        self.faults = faults
        """May be changed at any time; holds for what is sent from then on."""
        self.lags: dict[tuple[str, str], float] = {}
        """Seconds by which all watches of a kind (by its plural) of a process are behind, on
        top of the drawn lag. Holds for messages that arrive from then on."""
        self._partitions: dict[int, Partition] = {}
        self._partition_count = 0
        self._requests = 0
        self._lives: dict[str, int] = {}  # starts of each process; negative when dead
        self._streams: dict[_Stream, None] = {}
        self._under_way: dict[asyncio.Task[Any], None] = {}
        self._tasks = TaskGroup("network")

    async def __aenter__(self) -> SimulatedNetwork:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        await stop_tasks(list(self._under_way))
        return await self._tasks.__aexit__(kind, error, traceback)

    def transport(self, process: str, plane: str, inner: Transport) -> Transport:
        """For a client of ``plane`` in the current life of ``process``."""
        return _Link(self, process, plane, inner, self._lives.setdefault(process, 1))

    # What may be done to it while it runs.

    def partition(
        self,
        left: str | Iterable[str],
        right: str | Iterable[str],
        *,
        direction: Direction = Direction.BOTH,
        silent: bool = True,
    ) -> Partition:
        """Block messages between two groups of processes and planes until :meth:`heal`."""
        self._partition_count += 1
        number, one, other = self._partition_count, _names(left), _names(right)
        partition = self._partitions[number] = Partition(number, one, other, direction, silent)
        kind = "silent" if silent else "loud"
        self._note("cut", number, sorted(one), sorted(other), direction, kind)
        for stream in list(self._streams):
            if not silent and partition.stops(stream.link.plane, stream.link.process):
                stream.break_off("the connection was broken by a partition")
        return partition

    def heal(self, partition: Partition | None = None) -> None:
        """End one partition, or all. A stalled watch continues, or breaks only now."""
        healed = [partition] if partition else list(self._partitions.values())
        for each in healed:
            if self._partitions.pop(each.number, None) is not None:
                self._note("heal", each.number)
        for stream in list(self._streams):
            link = stream.link
            if any(each.stops(link.plane, link.process) for each in healed):
                if link.chance.random() < 0.5:
                    stream.break_off("the connection did not survive the partition")
                stream.wake()

    def find_partition(self, sender: str, receiver: str) -> Partition | None:
        """The partition that blocks messages from one to the other."""
        for partition in self._partitions.values():
            if partition.stops(sender, receiver):
                return partition
        return None

    def kill(self, process: str) -> None:
        """From this instant the process has no effects, whatever its tasks still do."""
        self._note("kill", process)
        self._lives[process] = -abs(self._lives.get(process, 1))
        for stream in list(self._streams):
            if stream.link.process == process:
                stream.break_off("the process is dead")

    def revive(self, process: str) -> None:
        """Transports made from now on work; those of the earlier life stay dead."""
        self._note("start", process)
        self._lives[process] = abs(self._lives.get(process, 0)) + 1

    def is_alive(self, process: str, life: int) -> bool:
        return self._lives.get(process) == life

    # Carrying.

    async def send(self, link: _Link, request: HttpRequest, timeout: float | None) -> HttpResponse:
        if not self.is_alive(link.process, link.life):
            raise errors.ConnectFailed("the process is dead")
        self._requests += 1
        number = self._requests
        self._note("request", number, link.process, link.plane, request.method, request.path)
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self.start(self._carry(link, request, number, answer), f"request {number}")
        try:
            async with asyncio.timeout(timeout or GIVE_UP_SECONDS):
                found = await answer
        except TimeoutError:
            self._note("timeout", number)
            raise errors.TimedOut("no reply in time") from None
        if isinstance(found, errors.TransportFailure):
            raise found
        return found

    async def _carry(
        self, link: _Link, request: HttpRequest, number: int, answer: asyncio.Future[_Answer]
    ) -> None:
        faults, chance = self.faults, link.chance
        fate = chance.random()
        await self._travel(link, faults)
        partition = self.find_partition(link.process, link.plane)
        if partition is not None or fate < faults.lose_request:
            self._lose(link, number, answer, partition, "request")
            return
        late = fate < faults.lose_request + faults.late_request
        if late:
            self._note("late", number)
            _fail(answer, errors.Disconnected("the connection broke"))
            await asyncio.sleep(chance.uniform(0.0, LATE_SECONDS))
            if self.find_partition(link.process, link.plane) is not None:
                return
        response = await self._deliver(link, request, number, answer)
        if response is None:
            return
        if request.method in DOUBLED and chance.random() < faults.duplicate:
            self._note("double", number)
            first, response = response, await self._deliver(link, request, number, answer)
            response = first if response is None or chance.random() < 0.5 else response
        if faults.stray and request.method != "GET" and chance.random() < faults.stray:
            seconds = chance.uniform(0.0, LATE_SECONDS)
            self.start(self._stray(link, request, number, seconds), f"stray {number}")
        await self._travel(link, faults)
        partition = self.find_partition(link.plane, link.process)
        if partition is not None or chance.random() < faults.lose_reply:
            self._lose(link, number, answer, partition, "reply")
            await close_stream(response.stream)
            return
        if answer.done() or not self.is_alive(link.process, link.life):
            await close_stream(response.stream)
            return
        if response.stream is not None:
            stream = _Stream(self, link, request, response.stream)
            self._streams[stream] = None
            response = HttpResponse(response.status, response.headers, stream=stream)
        answer.set_result(response)

    async def _stray(self, link: _Link, request: HttpRequest, number: int, seconds: float) -> None:
        """Deliver a request once more; its sender may be dead by then."""
        await asyncio.sleep(seconds)
        if self.find_partition(link.process, link.plane) is None:
            self._note("stray", number)
            dropped: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
            response = await self._deliver(link, request, number, dropped)
            await close_stream(response.stream if response is not None else None)

    async def _deliver(
        self, link: _Link, request: HttpRequest, number: int, answer: asyncio.Future[_Answer]
    ) -> HttpResponse | None:
        try:
            response = await link.inner.send(request)
        except errors.TransportFailure as failure:
            self._note("refused", number)
            _fail(answer, failure)
            return None
        self._note("reply", number, response.status)
        return response

    async def _travel(self, link: _Link, faults: NetworkFaults) -> None:
        seconds = link.chance.uniform(0.0, faults.delay) if faults.delay else 0.0
        if faults.slow and link.chance.random() < faults.slow:
            seconds += link.chance.uniform(0.0, SLOW_SECONDS)
        if seconds:
            await asyncio.sleep(seconds)

    def _lose(
        self,
        link: _Link,
        number: int,
        answer: asyncio.Future[_Answer],
        partition: Partition | None,
        what: str,
    ) -> None:
        silent = partition.silent if partition is not None else link.chance.random() < 0.3
        self._note("cut-off" if partition else "lost", what, number)
        if silent:
            return  # the caller waits until it gives up
        if what == "request" and partition is not None:
            _fail(answer, errors.ConnectFailed("the connection was refused"))
        else:
            _fail(answer, errors.Disconnected(f"the {what} was lost"))

    def lag_of(self, process: str, path: str) -> float:
        return sum(
            seconds
            for (name, plural), seconds in self.lags.items()
            if name == process and plural == path.rpartition("/")[2]
        )

    def forget(self, stream: _Stream) -> None:
        self._streams.pop(stream, None)

    def start(self, coro: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = self._tasks.start(coro, name=name)
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)
        return task

    def _note(self, kind: str, *details: object) -> None:
        self.trace.note(kind, *details)


class _Link:
    """One process's way to one plane, for one life of the process."""

    def __init__(
        self, network: SimulatedNetwork, process: str, plane: str, inner: Transport, life: int
    ) -> None:
        self.process = process
        self.plane = plane
        self.inner = inner
        self.life = life
        self.chance = network.env.random(f"network {process} {plane}")
        self._network = network

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        return await self._network.send(self, request, timeout)

    async def close(self) -> None:
        await self.inner.close()


class _Stream:
    """A watch's messages as the process receives them: in order, late, or not at all.

    A task takes them from the server as they are sent, so that a stalled reader delays only itself.
    """

    def __init__(
        self,
        network: SimulatedNetwork,
        link: _Link,
        request: HttpRequest,
        inner: AsyncIterator[bytes],
    ) -> None:
        self.link = link
        self._network = network
        self._path = request.path
        self._inner = inner
        self._lag = link.chance.uniform(0.0, network.faults.lag) if network.faults.lag else 0.0
        self._arrived: deque[tuple[float, bytes]] = deque()
        self._latest = 0.0
        self._ended = False
        self._broken: errors.TransportFailure | None = None
        self._waker: asyncio.Future[None] | None = None
        self._pump = network.start(self._take(), f"watch {link.process} {request.path}")

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._broken is not None:
                raise self._broken
            if self._arrived:
                due, chunk = self._arrived[0]
                wait = due - asyncio.get_running_loop().time()
                if self._network.find_partition(self.link.plane, self.link.process) is not None:
                    await self._sleep(None)
                elif wait > 0:
                    await self._sleep(wait)
                else:
                    self._arrived.popleft()
                    self._after_message()
                    return chunk
            elif self._ended:
                raise StopAsyncIteration
            else:
                await self._sleep(None)

    async def aclose(self) -> None:
        self._network.forget(self)
        await stop_tasks([self._pump])
        await close_stream(self._inner)

    def break_off(self, why: str) -> None:
        self._broken = errors.Disconnected(why)
        self.wake()

    def wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    def _after_message(self) -> None:
        share = self._network.faults.break_stream
        if share and self.link.chance.random() < share:
            self._network.trace.note("break", self.link.process, self._path)
            self.break_off("the connection broke")

    async def _take(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async for chunk in self._inner:
                lag = self._lag + self._network.lag_of(self.link.process, self._path)
                self._latest = max(self._latest, loop.time() + lag)  # never overtaking
                self._arrived.append((self._latest, chunk))
                self.wake()
        except errors.TransportFailure as failure:
            self._broken = failure
        self._ended = True
        self.wake()

    async def _sleep(self, seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        waker = self._waker = loop.create_future()
        timer = loop.call_later(seconds, self.wake) if seconds is not None else None
        try:
            await waker
        finally:
            if timer is not None:
                timer.cancel()


def _names(names: str | Iterable[str]) -> frozenset[str]:
    return frozenset([names] if isinstance(names, str) else names)


def _fail(answer: asyncio.Future[_Answer], failure: errors.TransportFailure) -> None:
    if not answer.done():
        answer.set_result(failure)
