"""Budget 14: how long a client waits for another's single request.

The server runs in a process of its own. One client sends the hostile requests of
``tests/support/apiserver/gallery`` one after the other: malformed, or well-formed and as expensive
as their size allows. Meanwhile another reads a small object again and again, and its longest wait
counts. Every request must get the answer that the gallery expects, none of which is a 5xx; the
server's memory is compared before and after.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from bench import budgets
from bench.apiserver import COLLECTION, ensure_kind, gadget, server_process
from bench.load import Connection, Server, UnexpectedAnswer
from bench.memory import resident_bytes
from bench.report import Result
from datum_compute.apiserver.server import COMPACTION_SECONDS
from datum_compute.apiserver.storage.protocol import HISTORY_SECONDS
from datum_compute.assembly.event_loop import TRIM_SECONDS
from tests.support.apiserver.gallery.gallery import all_shapes, removals
from tests.support.apiserver.gallery.shapes import Sent
from tests.support.apiserver.gallery.webhooks import webhook_process

PAUSE_SECONDS = 0.002
"""Between two reads, so that the reader leaves the cores to the server."""
WARM_UP = 20
"""Of the counts of the gallery a part, so that everything was used once before memory is read."""
REST_SECONDS = TRIM_SECONDS + HISTORY_SECONDS + 2 * COMPACTION_SECONDS
"""Until history is gone and freed memory is given back."""
SHOWN = 10
"""Of the longest waits, in the details."""


def measure() -> list[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        server_process(directory) as server,
        webhook_process(Path(directory)) as (url, bundle),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(ensure_kind(server))
        runner.run(drive(server, url, bundle, WARM_UP))
        time.sleep(REST_SECONDS)
        before = resident_bytes(server.pid)
        waits = runner.run(drive(server, url, bundle))
        time.sleep(REST_SECONDS)
        after = resident_bytes(server.pid)
    longest = sorted(waits, key=lambda name: -waits[name])[:SHOWN]
    details = {name: waits[name] for name in longest} | {
        "requests": float(len(waits)),
        "memory before, MB": before / 1e6,
        "memory after, MB": after / 1e6,
    }
    return [Result(budgets.HOSTILE, max(waits.values()), details)]


async def drive(server: Server, url: str, bundle: str, share: int = 1) -> dict[str, float]:
    """The longest wait of the reader in milliseconds, by shape."""
    reader = await Connection.open(server)
    await _send(server, Sent("POST", COLLECTION, gadget("small")))
    waits: dict[str, float] = {}
    for shape in all_shapes(url, bundle, share):
        for sent in shape.setup:
            await _send(server, sent)
        prepared = shape.sent._replace(body=shape.sent.raw)
        await _longest_wait(server, reader, asyncio.sleep(0.2 / share))
        sending = _send(server, prepared, str(shape.status))
        waits[shape.name] = await _longest_wait(server, reader, sending)
        for sent in removals(shape):
            await _send(server, sent)
    await reader.close()
    return waits


async def _send(server: Server, sent: Sent, expected: str = "") -> None:
    """On a connection of its own: a refused body ends it."""
    connection = await Connection.open(server)
    request = server.request(
        sent.method, sent.path, sent.raw, content_type=sent.content_type, accept=sent.accept
    )
    try:
        await connection.ask(request, expected.encode())
    except UnexpectedAnswer:
        if expected:
            raise
    finally:
        await connection.close()


async def _longest_wait(server: Server, reader: Connection, during: Any) -> float:
    task = asyncio.ensure_future(during)
    request = server.request("GET", f"{COLLECTION}/small")
    longest = 0.0
    while not task.done():
        start = time.perf_counter()
        await reader.ask(request, b"200")
        longest = max(longest, time.perf_counter() - start)
        await asyncio.sleep(PAUSE_SECONDS)
    await task
    return 1000 * longest
