"""Clients that ask for much and read nothing: memory stays bounded, and others do not wait.

The server is a process of its own, whose memory is measured.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from datum_compute.testing.server import ServerAddress
from tests.support.apiserver.connections import PREFIX, connected
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, widget

pytestmark = [pytest.mark.realtime, pytest.mark.long, pytest.mark.timeout(600)]

DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MEGABYTE = 2**20
OBJECTS = 500
MAX_MEMORY = 400 * MEGABYTE
LONGEST_SECONDS = 0.25
ATTEMPTS = 3
"""On a busy machine each client waits for the processor, too: the shortest of these counts."""


class ServerProcess:
    def __init__(self, address: ServerAddress, pid: int) -> None:
        self.address = address
        self.pid = pid
        self.context = ssl.create_default_context(cadata=address.ca_pem.decode())
        self.port = int(address.base_url.rpartition(":")[2])

    def memory(self) -> int:
        """Resident bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    async def create(self, name: str, size: int) -> None:
        await self.post(WIDGETS_PATH, widget(name, {"color": "x" * size}))

    async def post(self, path: str, body: dict[str, Any]) -> None:
        async with connected(self.address) as connection:
            connection.send("POST", path, json.dumps(body).encode())
            code, head = await connection.head()
            assert code == 201, head

    @asynccontextmanager
    async def unread(self, path: str) -> AsyncIterator[None]:
        """A request whose response is not read."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, limit=1024
        )
        token = f"Authorization: Bearer {self.address.token}"
        writer.write(f"GET {PREFIX}{path} HTTP/1.1\r\nHost: x\r\n{token}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        try:
            yield
        finally:
            writer.transport.abort()

    async def longest_wait(self, seconds: float) -> float:
        """Of a client that reads a small object again and again."""
        loop = asyncio.get_running_loop()
        longest, end = 0.0, loop.time() + seconds
        async with connected(self.address) as connection:
            while (start := loop.time()) < end:
                connection.send("GET", f"{WIDGETS_PATH}/small")
                code, _ = await connection.response()
                assert code == 200
                longest = max(longest, loop.time() - start)
        return longest


@asynccontextmanager
async def server_process(directory: Path) -> AsyncIterator[ServerProcess]:
    command = [sys.executable, "-m", "tests.support.apiserver.killable_server"]
    process = await asyncio.create_subprocess_exec(
        *command, str(directory), "token", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        ca_pem = (directory / "ca.crt").read_bytes()
        address = ServerAddress(f"https://127.0.0.1:{port}", ca_pem, "token")
        server = ServerProcess(address, process.pid)
        await server.post(DEFINITIONS_PATH, WIDGET_CRD)
        yield server
    finally:
        process.kill()
        await process.wait()


async def test_lists_that_are_not_read_cost_little_memory_and_delay_no_other_client(
    tmp_path: Path,
) -> None:
    async with server_process(tmp_path) as server:
        await server.create("small", 10)
        for number in range(OBJECTS):
            await server.create(f"w{number}", MEGABYTE)
        before = server.memory()

        waits: list[float] = []
        while not waits or (min(waits) >= LONGEST_SECONDS and len(waits) < ATTEMPTS):
            async with AsyncExitStack() as stack:
                meanwhile = asyncio.create_task(server.longest_wait(5))
                for _ in range(6):
                    await stack.enter_async_context(server.unread(WIDGETS_PATH))
                waits.append(await meanwhile)
                assert server.memory() - before < 60 * MEGABYTE
                assert server.memory() < MAX_MEMORY

        assert min(waits) < LONGEST_SECONDS


async def test_a_long_list_delays_no_other_client(tmp_path: Path) -> None:
    async with server_process(tmp_path) as server:
        await server.create("small", 10)
        for number in range(OBJECTS):
            await server.create(f"w{number}", MEGABYTE)

        async def read_all() -> int:
            total = 0
            async with connected(server.address) as connection:
                connection.send("GET", WIDGETS_PATH)
                await connection.head()
                while not (chunk := await connection.reader.read(MEGABYTE)).endswith(b"0\r\n\r\n"):
                    total += len(chunk)
            return total

        waits: list[float] = []
        while not waits or (min(waits) >= LONGEST_SECONDS and len(waits) < ATTEMPTS):
            meanwhile = asyncio.create_task(server.longest_wait(4))
            assert await read_all() > (OBJECTS - 1) * MEGABYTE
            waits.append(await meanwhile)

        assert min(waits) < LONGEST_SECONDS


async def test_watches_that_are_not_read_are_bounded_and_given_back(tmp_path: Path) -> None:
    count = 500
    async with server_process(tmp_path) as server:
        before = server.memory()
        async with AsyncExitStack() as stack:
            for _ in range(count):
                await stack.enter_async_context(server.unread(f"{WIDGETS_PATH}?watch=true"))
            for number in range(10):
                await server.create(f"w{number}", MEGABYTE)
            held = server.memory() - before
        for number in range(10, 20):
            await server.create(f"w{number}", MEGABYTE)
        kept = server.memory() - before

        # Unbounded, each watch holds ten copies: 5 GB.
        assert held < 400 * MEGABYTE
        assert kept < 250 * MEGABYTE
