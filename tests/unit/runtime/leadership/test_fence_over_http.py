"""The fence is where a request leaves the process, not where it begins to wait for a
connection."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.transport import HttpRequest
from datum_compute.runtime.leadership import FencedTransport, NotLeader
from tests.support.client.socket_server import ServedConnection, serve_script

pytestmark = pytest.mark.realtime

LONG = 20.0


async def test_a_write_that_waited_for_a_connection_is_not_sent_after_losing_the_lease() -> None:
    arrived: list[str] = []
    received, answer = asyncio.Event(), asyncio.Event()
    leads = True

    async def script(connection: ServedConnection) -> None:
        while head := await connection.request():
            arrived.append(f"{head.method} {head.target}")
            received.set()
            await answer.wait()
            await connection.answer(b"{}")

    async with serve_script(script) as port:
        transport = HttpTransport(f"http://127.0.0.1:{port}", max_connections=1)
        fenced = FencedTransport(transport, lambda: leads)
        try:
            reading = asyncio.create_task(fenced.send(HttpRequest("GET", "/a"), timeout=LONG))
            await received.wait()
            writing = asyncio.create_task(fenced.send(HttpRequest("PATCH", "/b"), timeout=LONG))
            await asyncio.sleep(0)
            leads = False
            answer.set()

            assert (await reading).status == 200
            with pytest.raises(NotLeader, match="PATCH /b was not sent"):
                await writing
            # What is no effect still passes, over the same pool.
            assert (await fenced.send(HttpRequest("GET", "/c"), timeout=LONG)).status == 200
        finally:
            await transport.close()

    assert arrived == ["GET /a", "GET /c"]
