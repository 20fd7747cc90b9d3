"""What one user may hold of the server at once: requests, watches, responses, buffers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from datum_compute.apiserver.request.access import PolicyRule, RequestUser
from datum_compute.apiserver.request.flow_control import (
    ORDINARY,
    PRIVILEGED,
    TOTAL_BUFFER_BYTES,
    FlowControl,
)
from datum_compute.apiserver.request.roles import Roles
from datum_compute.client.transport import HttpResponse, close_stream
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller, widget

BOB = RequestUser("bob", ("developers",))
WATCH = {"watch": "true"}


@asynccontextmanager
async def two_users() -> AsyncIterator[tuple[Caller, Caller]]:
    """An ordinary user and an administrator."""
    roles = Roles()
    rights = PolicyRule("example.com", "widgets", ("get", "list", "watch", "create"))
    roles.grant("bob", "cell/dfw", [rights])
    async with embedded_server(
        crds_for=lambda _: [WIDGET_CRD], cells=("dfw",), projects=(), authorizer=roles
    ) as embedded:
        embedded.token("bob", ["developers"])
        yield Caller(embedded, "cell/dfw", "bob"), Caller(embedded, "cell/dfw")


def assert_refused(response: HttpResponse, limit: str) -> None:
    status = json.loads(response.body)
    assert (response.status, status["reason"], status["details"]) == (
        429,
        "TooManyRequests",
        {"retryAfterSeconds": 1},
    )
    assert response.headers["retry-after"] == "1"
    assert status["message"].endswith(f'user "bob" has {limit}')


async def test_requests_in_flight_are_limited_for_each_user() -> None:
    async with two_users() as (bob, admin):
        body = [widget(f"w{number}") for number in range(ORDINARY.requests + 2)]
        creates = [bob.send("POST", WIDGETS_PATH, each) for each in body]
        *made, of_admin = await asyncio.gather(*creates, admin.send("GET", WIDGETS_PATH))

        refused = [each for each in made if each.status != 201]
        assert len(refused) == 2
        assert_refused(refused[0], "600 requests in flight")
        assert of_admin.status == 200
        assert (await bob.send("POST", WIDGETS_PATH, widget("later"))).status == 201


async def test_health_is_exempt_from_the_limits() -> None:
    async with two_users() as (bob, _):
        creates = [
            bob.send("POST", WIDGETS_PATH, widget(f"w{number}"))
            for number in range(ORDINARY.requests)
        ]
        *_, health = await asyncio.gather(*creates, bob.send("GET", "/readyz"))

        assert health.status == 200


async def test_open_watches_are_limited_for_each_user() -> None:
    async with two_users() as (bob, admin):
        opened = [await bob.send("GET", WIDGETS_PATH, query=WATCH) for _ in range(ORDINARY.watches)]
        refused = await bob.send("GET", WIDGETS_PATH, query=WATCH)
        others = await admin.send("GET", WIDGETS_PATH, query=WATCH)
        listed = await bob.send("GET", WIDGETS_PATH)
        await close_stream(opened.pop().stream)
        again = await bob.send("GET", WIDGETS_PATH, query=WATCH)

        assert {each.status for each in opened} == {200}
        assert_refused(refused, "300 open watches")
        assert (others.status, listed.status, again.status) == (200, 200, 200)


async def test_1500_watches_of_five_users_get_every_event_and_no_user_gets_more() -> None:
    names = [f"user{number}" for number in range(5)]
    roles = Roles()
    for name in names:
        rights = PolicyRule("example.com", "widgets", ("list", "watch"))
        roles.grant(name, "cell/dfw", [rights])
    async with embedded_server(
        crds_for=lambda _: [WIDGET_CRD], cells=("dfw",), projects=(), authorizer=roles
    ) as embedded:
        for name in names:
            embedded.token(name, ["developers"])
        users = [Caller(embedded, "cell/dfw", name) for name in names]
        watches = [
            await user.send("GET", WIDGETS_PATH, query=WATCH)
            for user in users
            for _ in range(ORDINARY.watches)
        ]
        refused = [await user.send("GET", WIDGETS_PATH, query=WATCH) for user in users]
        admin = Caller(embedded, "cell/dfw")
        for number in range(3):
            await admin.create(f"w{number}")
        await admin.delete("w0")

        seen = {await _types(each, 4) for each in watches}

        assert len(watches) == 1500
        assert seen == {("ADDED", "ADDED", "ADDED", "DELETED")}
        assert [each.status for each in refused] == [429] * 5
        assert {each.headers["retry-after"] for each in refused} == {"1"}


async def _types(response: HttpResponse, count: int) -> tuple[str, ...]:
    """The types of the first events of a watch."""
    assert response.stream is not None
    lines: list[bytes] = []
    while len(lines) < count:
        lines += (await anext(response.stream)).splitlines()
    await close_stream(response.stream)
    return tuple(json.loads(line)["type"] for line in lines)


async def test_responses_that_are_not_read_are_limited_for_each_user() -> None:
    async with two_users() as (bob, admin):
        await admin.create("big", {"color": "x" * 2**20})
        path = f"{WIDGETS_PATH}/big"
        held = [await bob.send("GET", path) for _ in range(ORDINARY.response_bytes // 2**20)]
        refused = await bob.send("GET", path)
        others = await admin.send("GET", path)
        for each in held:
            assert each.taken is not None
            each.taken()
        again = await bob.send("GET", path)

        assert_refused(refused, "33554432 bytes of responses that are not read")
        assert (others.status, again.status) == (200, 200)


async def test_buffers_of_watches_are_limited_in_sum_for_each_user() -> None:
    async with two_users() as (bob, admin):
        count, size = 100, 2**20
        watches = [await bob.send("GET", WIDGETS_PATH, query=WATCH) for _ in range(count)]
        for number in range(2):
            await admin.create(f"w{number}", {"color": "x" * size})

        ended = 0
        for each in watches:
            assert each.stream is not None
            first = await anext(each.stream)
            ended += first.startswith(b'{"type":"ERROR"')
            await close_stream(each.stream)
        assert ended >= count - ORDINARY.buffer_bytes // size
        assert ended < count
        after = await bob.send("GET", WIDGETS_PATH, query=WATCH)
        assert after.stream is not None
        assert (await anext(after.stream)).startswith(b'{"type":"ADDED"')


def test_the_limit_on_all_buffers_ends_watches_of_those_who_hold_most() -> None:
    flow = FlowControl()
    admin = [flow.of(RequestUser(name, ("system:masters",))) for name in ("a", "b")]
    bob = flow.of(BOB)

    assert bob.buffer(1000)
    assert admin[0].buffer(PRIVILEGED.buffer_bytes)
    assert not admin[1].buffer(TOTAL_BUFFER_BYTES - PRIVILEGED.buffer_bytes + 2**25)
    assert bob.buffer(1000)
    assert not admin[0].buffer(1)


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        (("developers",), ORDINARY),
        (("system:masters",), PRIVILEGED),
        (("system:controllers",), PRIVILEGED),
    ],
)
def test_administrators_and_controllers_have_higher_limits(
    groups: tuple[str, ...], limits: object
) -> None:
    assert FlowControl().of(RequestUser("one", groups)).limits == limits
