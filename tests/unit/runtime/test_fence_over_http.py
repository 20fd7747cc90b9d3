"""The fence stands where a request leaves the process, not where it begins to wait for a way."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.client.http import HttpTransport
from datum_compute.client.transport import Request
from datum_compute.runtime.leadership import Deposed, FencedTransport
from tests.unit.client.sockets import Connection, serving

pytestmark = pytest.mark.realtime

LONG = 20.0


async def test_a_write_that_waited_for_a_connection_is_not_sent_by_the_deposed() -> None:
    arrived: list[str] = []
    asked, answer = asyncio.Event(), asyncio.Event()
    leads = True

    async def script(connection: Connection) -> None:
        while head := await connection.request():
            arrived.append(f"{head.method} {head.target}")
            asked.set()
            await answer.wait()
            await connection.answer(b"{}")

    async with serving(script) as port:
        transport = HttpTransport(f"http://127.0.0.1:{port}", max_connections=1)
        fenced = FencedTransport(transport, lambda: leads)
        try:
            reading = asyncio.create_task(fenced.send(Request("GET", "/a"), timeout=LONG))
            await asked.wait()
            writing = asyncio.create_task(fenced.send(Request("PATCH", "/b"), timeout=LONG))
            await asyncio.sleep(0)
            leads = False
            answer.set()

            assert (await reading).status == 200
            with pytest.raises(Deposed, match="PATCH /b was not sent"):
                await writing
            # What is no effect still passes, over the same pool.
            assert (await fenced.send(Request("GET", "/c"), timeout=LONG)).status == 200
        finally:
            await transport.close()

    assert arrived == ["GET /a", "GET /c"]
