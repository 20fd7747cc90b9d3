"""A command that writes has one event loop and one pool of connections."""

from __future__ import annotations

import asyncio
import io
import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pytest

from datum_compute.api.core import CONFIG_MAPS
from datum_compute.cli.context import Context, Destination, PlainReader, Reach, Streams
from datum_compute.cli.session import Session
from datum_compute.client import connect
from datum_compute.client.client import ApiClient
from datum_compute.client.kubeconfig import Connection
from datum_compute.env import Environment
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.client.socket_server import ServedConnection, self_signed, serve_script

pytestmark = pytest.mark.realtime

T = TypeVar("T")
Ending = Callable[[asyncio.StreamWriter], object]
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@dataclass
class OneServer(Reach, Destination):
    connection: Connection

    def find(self, env: Environment, args: Namespace) -> Destination:
        return self

    @property
    def project(self) -> str:
        return "demo"

    def reader(self) -> PlainReader:
        raise AssertionError("a command that writes reads through its session")

    def root(self) -> None:
        return None

    def root_client(self) -> None:
        return None

    def client(self) -> ApiClient:
        return connect.client_for(self.connection)


class Server:
    """Serves one object, and notes the requests of each connection."""

    def __init__(self, end: Ending = asyncio.StreamWriter.close) -> None:
        """``end`` is how it ends an idle connection."""
        self.end = end
        self.requests: list[list[str]] = []
        self.hang_up = asyncio.Event()
        self.hung_up = asyncio.Event()

    async def __call__(self, connection: ServedConnection) -> None:
        served: list[str] = []
        self.requests.append(served)
        while True:
            reading = asyncio.create_task(connection.request())
            hanging_up = asyncio.create_task(self.hang_up.wait())
            await asyncio.wait([reading, hanging_up], return_when=asyncio.FIRST_COMPLETED)
            hanging_up.cancel()
            if not reading.done():
                reading.cancel()
                self.hang_up.clear()
                self.end(connection.writer)
                await asyncio.sleep(0.05)  # what it sends is with the client then
                self.hung_up.set()
                await connection.client_left()
                return
            head = reading.result()
            if head is None:
                return
            served.append(head.method)
            await connection.answer(json.dumps(OBJECT).encode())


async def in_session(server: Server, command: Callable[[Session], T]) -> T:
    """Run ``command`` as a process of its own would, beside the server."""
    identity = self_signed("127.0.0.1")

    def run(port: int) -> T:
        origin = f"https://127.0.0.1:{port}"
        there = OneServer(Connection("there", origin, ca_pem=identity.certificate_pem))
        streams = Streams(io.StringIO(), io.StringIO(), io.StringIO())
        context = Context(SimulatedEnvironment(), streams, Namespace(), reach=there)
        try:
            return command(context.open_session())
        finally:
            context.close()

    async with serve_script(server, identity.server_context()) as port:
        return await asyncio.to_thread(run, port)


async def test_reads_and_writes_share_one_connection() -> None:
    server = Server()

    def command(session: Session) -> None:
        session.reader.get(CONFIG_MAPS, "a", "default")
        session.run(lambda client: client.create(CONFIG_MAPS, OBJECT, "default"))
        session.run(lambda client: client.create(CONFIG_MAPS, OBJECT, "default"))
        session.reader.get(CONFIG_MAPS, "a", "default")

    await in_session(server, command)

    assert server.requests == [["GET", "POST", "POST", "GET"]]


@pytest.mark.parametrize(
    "end", [asyncio.StreamWriter.close, lambda writer: writer.transport.abort()]
)
async def test_a_write_is_sent_once_after_the_server_disconnected_during_a_prompt(
    end: Ending,
) -> None:
    server = Server(end)
    loop = asyncio.get_running_loop()

    def prompt() -> None:
        loop.call_soon_threadsafe(server.hang_up.set)
        asyncio.run_coroutine_threadsafe(server.hung_up.wait(), loop).result(10)

    def command(session: Session) -> None:
        session.reader.get(CONFIG_MAPS, "a", "default")
        prompt()
        session.run(lambda client: client.create(CONFIG_MAPS, OBJECT, "default"))

    await in_session(server, command)

    assert server.requests == [["GET"], ["POST"]]


async def test_the_access_check_comes_first_and_uses_the_same_connection() -> None:
    server = Server()
    order: list[str] = []

    def check(context: Context) -> None:
        order.append("check")
        context.reader.get(CONFIG_MAPS, "access", "default")

    def command(session: Session) -> None:
        session._context.access_check = check

        async def work(client: ApiClient) -> None:
            order.append("work")
            await client.create(CONFIG_MAPS, OBJECT, "default")

        session.run(work)

    await in_session(server, command)

    assert order == ["check", "work"]
    assert server.requests == [["GET", "POST"]]
