"""``…/log``: plain text from a source, for the kinds and planes that have one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from datum_compute.api.planes import CELL
from datum_compute.apiserver.request.access import PolicyRule
from datum_compute.apiserver.request.roles import Roles
from datum_compute.apiserver.verbs.logs import LogSubresource, LogsUnavailable
from datum_compute.client.transport import HttpRequest, HttpResponse, close_stream
from datum_compute.env import Environment, SystemEnvironment
from datum_compute.testing.environment import START, SimulatedEnvironment
from datum_compute.testing.server import ADMIN, embedded_server
from tests.support.apiserver.connections import connected
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller

ONE = f"{WIDGETS_PATH}/one/log"
LINES = [(datetime(2026, 1, 1, 0, 0, second, 120, UTC), f"line {second}") for second in (1, 2)]


class Source:
    """Two lines, then those the test adds, until the test ends it."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.refusal = ""
        self.broken = ""
        self.repeated, self.text = 0, ""
        self.read_lines = 0
        self.more: asyncio.Queue[str] = asyncio.Queue()
        self.open = 0

    def read(
        self,
        plane: str,
        obj: Mapping[str, Any],
        *,
        tail: int | None,
        since: datetime | None,
        follow: bool,
    ) -> AsyncIterator[tuple[datetime, str]]:
        if self.refusal:
            raise LogsUnavailable(self.refusal)
        name = obj["metadata"]["name"]
        self.calls.append({"of": (plane, name), "tail": tail, "since": since, "follow": follow})
        return self._lines(follow)

    async def _lines(self, follow: bool) -> AsyncIterator[tuple[datetime, str]]:
        self.open += 1
        try:
            if self.broken:
                raise LogsUnavailable(self.broken)
            if self.repeated:
                for _ in range(self.repeated):
                    self.read_lines += 1
                    yield LINES[0][0], self.text
                return
            for line in LINES:
                yield line
            while follow and (text := await self.more.get()):
                yield LINES[-1][0], text
        finally:
            self.open -= 1


@asynccontextmanager
async def logging_server(
    roles: Roles | None = None, env: Environment | None = None
) -> AsyncIterator[tuple[Caller, Source]]:
    source = Source()
    logs = LogSubresource("widgets.example.com", frozenset({CELL}), source.read)
    async with embedded_server(
        env or SimulatedEnvironment(),
        crds_for=lambda _: [WIDGET_CRD],
        projects=(),
        logs=logs,
        authorizer=roles,
    ) as embedded:
        caller = Caller(embedded, "cell/dfw")
        await caller.create("one")
        yield caller, source


async def refused(caller: Caller, path: str, **query: str) -> tuple[int, str]:
    response = await caller.send("GET", path, query=query)
    return response.status, msgspec.json.decode(response.body)["message"]


async def test_lines_are_plain_text_with_timestamps_on_request() -> None:
    async with logging_server() as (caller, _):
        plain = await caller.send("GET", ONE)
        stamped = await caller.send("GET", ONE, query={"timestamps": "true"})

        assert (plain.status, plain.body) == (200, b"line 1\nline 2\n")
        assert plain.headers["content-type"].startswith("text/plain")
        assert stamped.body == (
            b"2026-01-01T00:00:01.000120000Z line 1\n2026-01-01T00:00:02.000120000Z line 2\n"
        )


async def test_accept_is_ignored_for_lines() -> None:
    async with logging_server() as (caller, _):
        for accept in ("text/plain", "application/json, */*", "application/vnd.example"):
            response = await caller.send("GET", ONE, headers={"accept": accept})
            assert response.status == 200, accept


async def test_the_options_reach_the_source() -> None:
    async with logging_server() as (caller, source):
        await caller.send("GET", ONE, query={"tailLines": "0", "sinceSeconds": "90"})
        await caller.send("GET", ONE, query={"follow": "false", "sinceSeconds": "9" * 18})
        await caller.send("GET", ONE, query={"container": "app"})

        now = START + timedelta(seconds=asyncio.get_running_loop().time())
        nothing = {"of": ("cell/dfw", "one"), "tail": None, "since": None, "follow": False}
        assert source.calls == [
            {**nothing, "tail": 0, "since": now - timedelta(seconds=90)},
            nothing,
            nothing,
        ]


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("tailLines", "-1", "a whole number"),
        ("tailLines", "few", "a whole number"),
        ("sinceSeconds", "1.5", "a whole number"),
        ("sinceSeconds", "9" * 30, "a whole number"),
        ("follow", "maybe", "true or false"),
        ("timestamps", "yes", "true or false"),
    ],
)
async def test_an_invalid_log_parameter_is_named(key: str, value: str, allowed: str) -> None:
    async with logging_server() as (caller, source):
        assert await refused(caller, ONE, **{key: value}) == (
            400,
            f'invalid value "{value}" for {key}: must be {allowed}',
        )
        assert source.calls == []


async def test_logs_of_a_missing_object_are_not_found() -> None:
    async with logging_server() as (caller, _):
        code, status = await caller.call("GET", f"{WIDGETS_PATH}/two/log")

        assert (code, status["reason"]) == (404, "NotFound")
        assert status["message"] == 'widgets.example.com "two" not found'


async def test_lines_can_only_be_read() -> None:
    async with logging_server() as (caller, _):
        answers = [
            (await caller.send(method, ONE, {"spec": {}})).status
            for method in ("PUT", "PATCH", "DELETE", "POST")
        ]

        assert answers == [405, 405, 405, 405]


async def test_other_planes_kinds_and_servers_have_no_log_subresource() -> None:
    async with logging_server() as (caller, _):
        hub = Caller(caller.embedded, "hub")
        await hub.create("one")
        on_hub = await hub.send("GET", ONE)
        of_namespace = await caller.send("GET", "/api/v1/namespaces/default/configmaps/x/log")
    async with embedded_server(crds_for=lambda _: [WIDGET_CRD], projects=()) as embedded:
        without = Caller(embedded, "cell/dfw")
        await without.create("one")
        unserved = await without.send("GET", ONE)

    assert [on_hub.status, of_namespace.status, unserved.status] == [404, 404, 404]


async def test_discovery_does_not_list_the_log_subresource() -> None:
    async with logging_server() as (caller, _):
        _, found = await caller.call("GET", "/apis/example.com/v1")

        assert [each["name"] for each in found["resources"]] == ["widgets", "widgets/status"]


async def test_reading_logs_needs_get_on_the_subresource() -> None:
    roles = Roles()
    async with logging_server(roles) as (caller, _):
        for user, resource in (("reader", "widgets"), ("tail", "widgets/log")):
            caller.embedded.token(user, [])
            roles.grant(user, "cell", [PolicyRule("example.com", resource, ("get",))])
        reader = Caller(caller.embedded, "cell/dfw", "reader")
        tail = Caller(caller.embedded, "cell/dfw", "tail")

        code, message = await refused(reader, ONE)
        assert code == 403
        assert 'cannot get resource "widgets/log"' in message
        assert (await tail.send("GET", ONE)).status == 200


async def test_logs_of_an_unreachable_source_are_unavailable() -> None:
    async with logging_server() as (caller, source):
        source.refusal = "the cell is unreachable"

        assert await refused(caller, ONE) == (503, "the cell is unreachable")
        assert (await caller.send("GET", ONE, query={"follow": "true"})).status == 503


async def test_a_source_that_breaks_off_before_its_first_line_is_unavailable() -> None:
    async with logging_server() as (caller, source):
        source.broken = "the engine does not answer"

        assert await refused(caller, ONE) == (503, "the engine does not answer")
        assert source.open == 0


async def test_a_large_log_is_read_as_it_is_taken() -> None:
    async with logging_server() as (caller, source):
        source.repeated = 1000
        source.text = "x" * 10_000
        headers = {"authorization": f"Bearer {caller.embedded.token(ADMIN)}"}
        request = HttpRequest("GET", f"/clusters/dfw{ONE}", headers=headers)
        response = await caller.embedded.server.handle(request)
        assert response.stream is not None
        assert source.read_lines < 100
        size = sum([len(each) async for each in response.stream])

        assert size == 1000 * 10_001
        assert source.open == 0
        left = (await caller.embedded.server.handle(request)).stream
        assert left is not None
        await anext(left)
        await close_stream(left)
        assert source.open == 0


async def followed(caller: Caller) -> HttpResponse:
    response = await caller.send("GET", ONE, query={"follow": "true"})
    assert response.stream is not None
    return response


async def all_of(response: HttpResponse) -> list[bytes]:
    assert response.stream is not None
    return [chunk async for chunk in response.stream]


FIRST = [b"line 1\n", b"line 2\n"]


async def test_a_followed_log_ends_with_its_source() -> None:
    async with logging_server() as (caller, source):
        reading = asyncio.create_task(all_of(await followed(caller)))
        for text in ("third", "fourth", ""):
            await asyncio.sleep(60)
            source.more.put_nowait(text)

        assert await reading == [*FIRST, b"third\n", b"fourth\n"]
        assert source.open == 0


async def test_a_followed_log_ends_soon_after_its_object() -> None:
    async with logging_server() as (caller, source):
        reading = asyncio.create_task(all_of(await followed(caller)))
        await caller.create("other")
        await caller.delete("other")
        await asyncio.sleep(60)
        went_on = not reading.done()
        gone_at = asyncio.get_running_loop().time()
        await caller.delete("one")
        source.more.put_nowait("last")

        assert went_on
        assert await reading == [*FIRST, b"last\n"]
        assert asyncio.get_running_loop().time() - gone_at < 5
        assert source.open == 0


async def test_a_followed_log_ends_with_the_server() -> None:
    async with logging_server() as (caller, source):
        reading = asyncio.create_task(all_of(await followed(caller)))
        await asyncio.sleep(1)
        caller.embedded.server.end_watches()

        assert await reading == FIRST
        assert source.open == 0


async def test_a_client_may_disconnect_between_two_lines() -> None:
    async with logging_server() as (caller, source):
        response = await followed(caller)
        assert response.stream is not None
        first = await anext(response.stream)
        before = source.open
        await close_stream(response.stream)

        assert first == FIRST[0]
        assert (before, source.open) == (1, 0)
        assert await all_of(response) == []


async def test_a_client_may_disconnect_before_the_first_line() -> None:
    async with logging_server() as (caller, source):
        response = await followed(caller)
        reading = asyncio.create_task(all_of(response))
        await asyncio.sleep(1)
        await close_stream(response.stream)  # from beside, as a front end does
        unread = await followed(caller)
        await close_stream(unread.stream)

        assert await reading == FIRST
        assert await all_of(unread) == []
        assert source.open == 0


async def test_a_reader_that_is_cancelled_stays_cancelled() -> None:
    async with logging_server() as (caller, source):
        response = await followed(caller)
        reading = asyncio.create_task(all_of(response))
        await asyncio.sleep(1)
        reading.cancel()

        with pytest.raises(asyncio.CancelledError):
            await reading
        await close_stream(response.stream)
        assert source.open == 0


@pytest.mark.realtime
async def test_lines_are_streamed_over_tls_and_a_disconnect_is_detected() -> None:
    async with (
        logging_server(env=SystemEnvironment()) as (caller, source),
        caller.embedded.serve_https() as address,
    ):
        async with connected(address) as connection:
            connection.send("GET", f"{ONE}?follow=true")
            code, head = await connection.head()
            chunks = b"".join([await connection.chunk() for _ in FIRST])
            source.more.put_nowait("third")
            chunks += await connection.chunk()

        async with asyncio.timeout(10):
            while source.open:  # noqa: ASYNC110 - the server notices with the socket
                await asyncio.sleep(0.01)
        assert code == 200
        assert "transfer-encoding: chunked" in head
        assert chunks == b"line 1\nline 2\nthird\n"
