"""Budget 2: how long after a write each of a hundred watchers has it, beside a real
kube-apiserver with etcd, turn by turn.

The clock of one delivery starts when the write is sent, and stops when the watcher's socket
has given the whole event. Writes go over one connection, one every five milliseconds, so the
n-th event of every watcher is the n-th write and no event needs to be parsed.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import tempfile
import time
from collections.abc import Mapping
from typing import cast

import uvloop

from bench import budgets
from bench.apiserver import COLLECTION, ensure_kind, gadget, real_server, server_process
from bench.load import Connection, Server
from bench.report import Result
from bench.samples import percentile, spread
from scripts.cluster_tools import ensure_tools
from tests.support.cluster.control_plane import ControlPlane

WATCHERS = 100
WRITES_PER_SECOND = 200
TURNS, SECONDS = 3, 5
END_OF_EVENT = b"}\n"
LIMIT_SECONDS = 60.0
RETRY_SECONDS = 0.2


def measure() -> list[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        server_process(directory) as ours,
        ControlPlane(ensure_tools()) as control_plane,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        found = runner.run(_compare({"ours": ours, "kube-apiserver": real_server(control_plane)}))
    own, other = (percentile(delays, 0.99) for delays in found.values())
    details = {
        f"{name}, {what}": value
        for name, delays in found.items()
        for what, value in spread(delays, "ms").items()
    }
    return [Result(budgets.WATCH, own, details), Result(budgets.WATCH_BESIDE, own / other)]


async def _compare(servers: Mapping[str, Server]) -> dict[str, list[float]]:
    """The milliseconds of each delivery."""
    found: dict[str, list[float]] = {name: [] for name in servers}
    for server in servers.values():
        await ensure_kind(server)
    for turn in range(TURNS):
        for name, server in servers.items():
            found[name] += await _drive(server, turn)
    return found


async def _drive(server: Server, turn: int) -> list[float]:
    writer = await Connection.open(server)
    listed = json.loads(await writer.ask(server.request("GET", f"{COLLECTION}?limit=1"), b"200"))
    revision = listed["metadata"]["resourceVersion"]
    watchers = [await _watch(server, revision) for _ in range(WATCHERS)]
    sent = await _write(server, writer, turn)
    async with asyncio.timeout(LIMIT_SECONDS):
        for watcher in watchers:
            await watcher.has(len(sent))
    for watcher in watchers:
        watcher.close()
    await writer.close()
    return [
        1000 * (arrived - begun)
        for watcher in watchers
        for arrived, begun in zip(watcher.arrivals, sent, strict=True)
    ]


async def _write(server: Server, writer: Connection, turn: int) -> list[float]:
    """Write at the given rate, or as fast as responses come; when each write was sent."""
    names = [f"turn-{turn}-{n:05d}" for n in range(WRITES_PER_SECOND * SECONDS)]
    bodies = [json.dumps(gadget(name)).encode() for name in names]
    requests = [server.request("POST", COLLECTION, body) for body in bodies]
    sent = []
    start = time.perf_counter()
    for number, request in enumerate(requests):
        early = start + number / WRITES_PER_SECOND - time.perf_counter()
        if early > 0:
            await asyncio.sleep(early)
        sent.append(time.perf_counter())
        await writer.ask(request, b"201")
    return sent


class _Watcher(asyncio.Protocol):
    """Counts events by their line ends, and records when each arrived."""

    def __init__(self, request: bytes) -> None:
        self.arrivals: list[float] = []
        self.opened = asyncio.get_running_loop().create_future()
        self._request = request
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._wanted = 0
        self._enough = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is no subclass of it
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self.opened.set_result(data[9:12])
        now = time.perf_counter()
        events = (self._rest + data).count(END_OF_EVENT)
        self._rest = data[-1:] if data.endswith(b"}") else b""
        self.arrivals += [now] * events
        if self._wanted and len(self.arrivals) >= self._wanted:
            self._enough.set()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(error or RuntimeError("the server closed a watch"))

    async def has(self, events: int) -> None:
        self._wanted = events
        if len(self.arrivals) < events:
            await self._enough.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def _watch(server: Server, revision: str) -> _Watcher:
    """kube-apiserver answers 429 until its cache of a new kind is filled."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while (answered := await _open(server, revision))[0] == b"429":
            answered[1].close()
            await asyncio.sleep(RETRY_SECONDS)
    status, watcher = answered
    if status != b"200":
        raise RuntimeError(f"the server answered a watch with {status.decode()}")
    return watcher


async def _open(server: Server, revision: str) -> tuple[bytes, _Watcher]:
    path = f"{COLLECTION}?watch=true&resourceVersion={revision}"
    loop = asyncio.get_running_loop()
    _, watcher = await loop.create_connection(
        lambda: _Watcher(server.request("GET", path)),
        server.host,
        server.port,
        ssl=ssl.create_default_context(cadata=server.ca_pem),
    )
    return await watcher.opened, watcher
