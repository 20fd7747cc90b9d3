"""A plain get is answered without a task; whatever is more than that is not.

That the two ways give the same bytes is checked by the caller of all other tests of requests.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.apiserver.http.connection import HttpServerConnection
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, widget, widget_server

PATH = f"/clusters/dfw{WIDGETS_PATH}/w"


def request(caller: Caller, path: str = PATH, method: str = "GET", **more: Any) -> HttpRequest:
    headers = {"authorization": f"Bearer {caller.embedded.token()}", **more.pop("headers", {})}
    return HttpRequest(method, path, headers=headers, **more)


async def test_a_plain_get_is_answered_at_once() -> None:
    async with widget_server() as caller:
        await caller.create("w")

        response = caller.embedded.server.answer_now(request(caller))

        assert response is not None
        assert response.status == 200
        assert response.body == (await caller.send("GET", f"{WIDGETS_PATH}/w")).body
        assert b'"managedFields":[' in response.body


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "DELETE"},
        {"path": f"{PATH}/status"},
        {"path": f"/clusters/dfw{WIDGETS_PATH}"},
        {"path": f"/clusters/dfw{WIDGETS_PATH}/missing"},
        {"path": f"/clusters/nowhere{WIDGETS_PATH}/w"},
        {"path": "/clusters/dfw/version"},
        {"query": (("resourceVersion", "99999999999999999"),)},
        {"headers": {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}},
        {"headers": {"accept": "image/png"}},
        {"headers": {"impersonate-user": "mallory"}},
        {"headers": {"authorization": "Bearer unknown"}},
    ],
)
async def test_anything_else_is_left_to_the_handler(asked: dict[str, Any]) -> None:
    async with widget_server() as caller:
        await caller.create("w")

        assert caller.embedded.server.answer_now(request(caller, **asked)) is None


async def test_nothing_is_answered_at_once_while_a_write_is_not_on_disk() -> None:
    async with widget_server() as caller:
        await caller.create("w")
        server = caller.embedded.server
        body = widget("other")
        create = asyncio.create_task(caller.call("POST", WIDGETS_PATH, body))
        await asyncio.sleep(0)

        assert not caller.embedded.store.is_durable
        assert server.answer_now(request(caller)) is None

        await create
        assert server.answer_now(request(caller)) is not None


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def set_write_buffer_limits(self, high: int) -> None: ...
    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def write(self, data: bytes) -> None:
        self.written.append(data)


async def test_of_what_arrives_together_one_request_is_answered_at_once_and_all_in_order() -> None:
    at_once: list[str] = []

    def answer_now(request: HttpRequest) -> HttpResponse | None:
        at_once.append(request.path)
        return HttpResponse(200, {}, b"now")

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, request.path.encode())

    connection, wire = HttpServerConnection(handler, 60, answer_now), Wire()
    connection.connection_made(wire)  # type: ignore[arg-type]

    connection.data_received(b"".join(b"GET /%d HTTP/1.1\r\n\r\n" % number for number in range(3)))
    sent_at_once = len(wire.written)
    for _ in range(10):
        await asyncio.sleep(0)
    connection.data_received(b"GET /3 HTTP/1.1\r\n\r\n")

    assert sent_at_once == 1
    assert at_once == ["/0", "/3"]
    assert [each.rpartition(b"\r\n")[2] for each in wire.written] == [b"now", b"/1", b"/2", b"now"]
    connection.connection_lost(None)
