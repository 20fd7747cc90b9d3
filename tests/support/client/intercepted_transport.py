"""A transport that treats requests by the rules of a test: fails, delays, answers or records them.

A rule is an action for the requests that match. Rules apply in order, each around the next, so
that one can record what another fails. A test changes ``rules`` while the transport is in use::

    client, link = w.linked("project/demo")
    link.rules.append(CUT)
    ...
    link.rules.clear()
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import msgspec

from datum_compute.api import planes
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.transport import (
    Handler,
    HttpRequest,
    HttpResponse,
    Transport,
    close_stream,
)
from datum_compute.testing.server import EmbeddedServer

Match = Callable[[HttpRequest], bool]
Action = Callable[[HttpRequest, Handler], Awaitable[HttpResponse]]
"""Given a request and the way on: the rules that follow, then the wrapped transport."""


# Which requests.


def every_request(request: HttpRequest) -> bool:
    return True


def is_watch(request: HttpRequest) -> bool:
    return "watch" in dict(request.query)


def is_write(request: HttpRequest) -> bool:
    return request.method != "GET"


def has_method(*methods: str) -> Match:
    return lambda request: request.method in methods


def names_kind(*plurals: str) -> Match:
    """Requests on one of these kinds, or below an object of one."""
    return lambda request: not set(plurals).isdisjoint(request.path.split("/"))


def ends_with(*suffixes: str) -> Match:
    """Requests whose path ends so."""
    return lambda request: request.path.endswith(suffixes)


# What happens to them.


@dataclass(frozen=True)
class SentRequest:
    at: float
    """The loop's time."""
    request: HttpRequest


def record(into: list[SentRequest]) -> Action:
    async def action(request: HttpRequest, forward: Handler) -> HttpResponse:
        into.append(SentRequest(asyncio.get_running_loop().time(), request))
        return await forward(request)

    return action


def respond(response: HttpResponse) -> Action:
    """Respond in place of the server."""

    async def action(request: HttpRequest, forward: Handler) -> HttpResponse:
        return response

    return action


def refuse(code: int, reason: str, message: str = "from the test", **headers: str) -> Action:
    """Respond in place of the server with an error in the API's own form."""
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return respond(HttpResponse(code, headers, json.dumps({**status, "message": message}).encode()))


def fail(error: Exception) -> Action:
    """Fail before the request arrives."""

    async def action(request: HttpRequest, forward: Handler) -> HttpResponse:
        raise error.with_traceback(None)  # else each time adds to its traceback

    return action


def delay(seconds: float) -> Action:
    """Let the request wait before it goes on."""

    async def action(request: HttpRequest, forward: Handler) -> HttpResponse:
        await asyncio.sleep(seconds)
        return await forward(request)

    return action


def delay_answer(seconds: float) -> Action:
    """Carry the request out at once, and let its answer wait."""

    async def action(request: HttpRequest, forward: Handler) -> HttpResponse:
        response = await forward(request)
        await asyncio.sleep(seconds)
        return response

    return action


async def hang(request: HttpRequest, forward: Handler) -> HttpResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class Rule:
    action: Action
    matches: Match = every_request
    breaks_streams: bool = False
    """Whether open streams of matching requests break at their next chunk."""


CUT = Rule(fail(errors.ConnectFailed("the connection is cut")))
"""No request gets through; open streams go on."""
DISCONNECTED = Rule(fail(errors.ConnectFailed("the connection is cut")), breaks_streams=True)
"""No request gets through, and open streams break."""
NO_NEW_WATCHES = Rule(fail(errors.ConnectFailed("the connection is cut")), is_watch)
"""No watch opens; open ones go on."""
NO_WATCHES = Rule(
    fail(errors.ConnectFailed("the connection is cut")), is_watch, breaks_streams=True
)
"""No watch opens, and open ones break."""


def forbid(*methods: str) -> Rule:
    return Rule(refuse(403, "Forbidden"), has_method(*methods))


class InterceptedTransport:
    """A transport in front of ``inner``. Several may share one list of rules."""

    def __init__(self, inner: Transport, rules: list[Rule] | None = None) -> None:
        self.rules = rules if rules is not None else []
        self._inner = inner

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        async def forward(request: HttpRequest, rules: list[Rule]) -> HttpResponse:
            if not rules:
                return await self._inner.send(request, timeout=timeout)
            rule, *rest = rules
            if rule.matches(request):
                return await rule.action(request, lambda changed: forward(changed, rest))
            return await forward(request, rest)

        response = await forward(request, self.rules)
        if response.stream is None:
            return response
        return msgspec.structs.replace(response, stream=_Stream(self, request, response.stream))

    async def close(self) -> None:
        await self._inner.close()

    def breaks_stream(self, request: HttpRequest) -> bool:
        return any(each.breaks_streams and each.matches(request) for each in self.rules)


class _Stream:
    """The stream of a response, until a rule breaks it."""

    def __init__(
        self, transport: InterceptedTransport, request: HttpRequest, inner: AsyncIterator[bytes]
    ) -> None:
        self._transport = transport
        self._request = request
        self._inner = inner

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._inner)
        if self._transport.breaks_stream(self._request):
            await self.aclose()
            raise errors.Disconnected("the stream is broken")
        return chunk

    async def aclose(self) -> None:
        await close_stream(self._inner)


def linked_client(
    embedded: EmbeddedServer, plane: str, *rules: Rule
) -> tuple[ApiClient, InterceptedTransport]:
    """A client of a plane of the embedded server, and the transport between them."""
    link = InterceptedTransport(InProcessTransport(embedded.server.handle), [*rules])
    client = ApiClient(
        link,
        cluster=planes.cluster_name(plane),
        prefix=planes.plane_prefix(plane),
        token=embedded.token(),
        user_agent="test",
    )
    return client, link
