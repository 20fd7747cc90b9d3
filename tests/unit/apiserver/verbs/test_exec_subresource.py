"""``…/exec``: a command behind an object, over a WebSocket."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datum_compute.api.planes import CELL
from datum_compute.apiserver.request.access import PolicyRule
from datum_compute.apiserver.request.roles import Roles
from datum_compute.apiserver.verbs.exec import CommandRefused, ExecSubresource
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.http.transport import HttpTransport
from datum_compute.client.remote_command import (
    STDERR,
    STDOUT,
    CommandFailed,
    CommandRequest,
    RemoteCommand,
    start_command,
)
from datum_compute.env import Environment, SystemEnvironment
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.connections import connected
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS, WIDGETS_PATH, Caller
from tests.support.providers.commands import ScriptedCommand, ScriptedCommands

ONE = f"{WIDGETS_PATH}/one/exec"


class Source(ScriptedCommands):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str, str]] = []
        self.answer: CommandRefused | None = None

    async def run(
        self, plane: str, obj: Mapping[str, Any], user: str, request: CommandRequest
    ) -> ScriptedCommand:
        if self.answer is not None:
            raise self.answer
        self.calls.append((plane, obj["metadata"]["name"], user))
        return await self.exec(obj["metadata"]["uid"], request)


@asynccontextmanager
async def serving(
    roles: Roles | None = None, *, env: Environment | None = None
) -> AsyncIterator[tuple[Caller, Source]]:
    source = Source()
    commands = ExecSubresource("widgets.example.com", frozenset({CELL}), source.run)
    async with embedded_server(
        env or SimulatedEnvironment(),
        crds_for=lambda _: [WIDGET_CRD],
        projects=(),
        commands=commands,
        authorizer=roles,
    ) as embedded:
        caller = Caller(embedded, "cell/dfw")
        await caller.create("one")
        yield caller, source


async def begin(caller: Caller, *words: str, user: str = "", **options: Any) -> RemoteCommand:
    client = caller.embedded.client("cell/dfw", *([user] if user else []))
    assert isinstance(client, ApiClient)
    request = CommandRequest(words or ("/bin/sh",), **options)
    return await start_command(client, WIDGETS, "one", "default", request, caller.embedded.env)


async def all_of(command: RemoteCommand) -> list[tuple[int, bytes]]:
    return [each async for each in command]


async def wait_closed(source: Source) -> None:
    async with asyncio.timeout(30):
        while source.open:  # noqa: ASYNC110 - the server notices with the socket
            await asyncio.sleep(0.01)


async def test_input_output_size_and_exit_code_cross() -> None:
    async with serving() as (caller, source):
        command = await begin(caller, "/bin/sh", "-c", "x y", container="app", tty=True, stdin=True)
        [running] = source.open
        await command.resize(99, 33)
        await command.send(b"hello")
        await command.send(b"exit 7")

        assert await all_of(command) == [(STDERR, b"ready\n"), (STDOUT, b"hello")]
        assert await command.exit_code() == 7
        assert running.sizes == [(99, 33)]
        asked = CommandRequest(("/bin/sh", "-c", "x y"), "app", tty=True, stdin=True)
        assert source.requests == [asked]
        assert [each[:2] for each in source.calls] == [("cell/dfw", "one")]
        await command.aclose()
        assert source.open == []


async def test_the_end_of_input_is_passed_on_and_success_is_code_0() -> None:
    async with serving() as (caller, _):
        command = await begin(caller, stdin=True)
        await command.end_input()
        assert await all_of(command) == [(STDERR, b"ready\n")]
        assert await command.exit_code() == 0
        await command.aclose()


async def test_a_program_that_cannot_be_run_fails_with_the_reason() -> None:
    async with serving() as (caller, _):
        command = await begin(caller, "/nope")
        assert await all_of(command) == []
        with pytest.raises(CommandFailed, match="cannot run /nope: no such file"):
            await command.exit_code()
        await command.aclose()


async def test_a_session_ends_with_its_object_and_with_the_server() -> None:
    async with serving() as (caller, source):
        for end, words in (
            (lambda: caller.delete("one"), "one was deleted"),
            (_ends(caller), "the server ends the session"),
        ):
            command = await begin(caller, stdin=True)
            reading = asyncio.create_task(all_of(command))
            await asyncio.sleep(1)
            await end()
            await reading
            with pytest.raises(CommandFailed, match=words):
                await command.exit_code()
            await command.aclose()
            assert source.open == []
            await caller.create("one") if words.startswith("one") else None


def _ends(caller: Caller) -> Any:
    async def end() -> None:
        caller.embedded.server.end_watches()

    return end


async def test_a_command_needs_create_on_the_subresource() -> None:
    roles = Roles()
    async with serving(roles) as (caller, source):
        granted = {"reader": ("widgets/exec", "get"), "runner": ("widgets/exec", "create")}
        for user, (resource, verb) in granted.items():
            caller.embedded.token(user, [])
            roles.grant(user, "cell", [PolicyRule("example.com", resource, (verb,))])

        with pytest.raises(errors.Forbidden, match='cannot create resource "widgets/exec"'):
            await begin(caller, user="reader")
        await (await begin(caller, user="runner")).aclose()
        assert [each[2] for each in source.calls] == ["runner"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (409, errors.Conflict),
        (429, errors.Throttled),
        (501, errors.ClientError),
        (503, errors.Unavailable),
    ],
)
async def test_a_refusal_says_why(status: int, kind: type[Exception]) -> None:
    async with serving() as (caller, source):
        source.answer = CommandRefused(status, "it does not run")
        with pytest.raises(kind, match="it does not run"):
            await begin(caller)


async def test_requests_that_are_no_session_are_refused_in_words() -> None:
    async with serving() as (caller, source):
        for query, words in (
            ({}, "command: expected the program"),
            ({"command": "x"}, "exec is a WebSocket with the protocol v5.channel.k8s.io"),
        ):
            for method in ("GET", "POST"):
                code, status = await caller.call(method, ONE, query=query)
                assert code == 400
                assert words in status["message"]
        code, _ = await caller.call("DELETE", ONE)
        assert code == 405
        code, _ = await caller.call("GET", f"{WIDGETS_PATH}/two/exec", query={"command": "x"})
        assert code == 404
        assert source.calls == []


@pytest.mark.realtime
async def test_other_protocols_are_refused_over_tls_and_the_connection_ends() -> None:
    async with (
        serving(env=SystemEnvironment()) as (caller, _),
        caller.embedded.serve_https() as address,
        connected(address) as connection,
    ):
        headers = (
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Key: x",
            "Sec-WebSocket-Protocol: v4.channel.k8s.io",
        )
        connection.send("GET", f"{ONE}?command=x", b"", *headers)
        code, head = await connection.head()
        assert code == 400
        assert "connection: close" in head


@asynccontextmanager
async def over_tls() -> AsyncIterator[tuple[Caller, Source, ApiClient]]:
    async with (
        serving(env=SystemEnvironment()) as (caller, source),
        caller.embedded.serve_https() as address,
    ):
        client = ApiClient(
            HttpTransport(address.base_url, ca_pem=address.ca_pem),
            cluster="dfw",
            prefix="/clusters/dfw",
            token=address.token,
        )
        try:
            yield caller, source, client
        finally:
            await client.close()


async def run(client: ApiClient, *words: str) -> RemoteCommand:
    request = CommandRequest(words, stdin=True)
    return await start_command(client, WIDGETS, "one", "default", request, SystemEnvironment())


@pytest.mark.realtime
async def test_a_session_over_tls_ends_when_its_client_leaves() -> None:
    async with over_tls() as (_, source, client):
        command = await run(client, "/bin/sh")
        await command.send(b"x" * 300_000)
        await command.send(b"exit 3")
        read = await all_of(command)
        assert b"".join(data for _, data in read) == b"ready\n" + b"x" * 300_000
        assert await command.exit_code() == 3
        await command.aclose()

        left = await run(client, "/bin/sh")
        assert len(source.open) >= 1
        await left.aclose()
        await wait_closed(source)


@pytest.mark.realtime
async def test_output_that_is_not_read_waits_where_it_is_written() -> None:
    """Twenty sessions without a reader: each holds what its buffers hold and no more."""
    async with over_tls() as (_, source, client):
        tracemalloc.start()
        try:
            commands = [await run(client, "flood") for _ in range(20)]
            before = -1
            while source.written != before:
                before = source.written
                await asyncio.sleep(0.3)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 40 * 2**20
        for command in commands:
            await command.aclose()
        await wait_closed(source)
