"""The seam under the client: one request goes in, one response comes out.

The same two records serve both sides. A transport carries them over a socket or hands
them to the embedded server's handler in the same process; the embedded server's network
front end builds them from what it reads off a socket. A simulated network is one more
transport that delays, loses or disconnects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

import msgspec


class HttpRequest(msgspec.Struct, frozen=True):
    """Made twice for every call, so a struct: it costs a fraction of a frozen dataclass."""

    method: str
    path: str
    """Percent-decoded and absolute, from the server's root: plane prefix included."""
    query: tuple[tuple[str, str], ...] = ()
    """Decoded, in the order given; a key may repeat."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Keys in lower case."""
    body: bytes = b""
    before_send: Callable[[], None] | None = None
    """Called in the same step in which the request leaves the process; raises to prevent
    that. A transport that waits first, as for a connection, must call it after the wait and
    let its exception pass."""
    stream: AsyncIterator[bytes] | None = None
    """Of a request to switch protocols: what the client sends after its head. It is read only
    once the server has switched, with status 101; the response's stream is the other direction."""
    with_managed_fields: bool = True
    """Whether objects are sent with ``metadata.managedFields``; over HTTP they always are."""
    is_wanted: Callable[[], bool] | None = None
    """Whether its sender still waits for the response; a server asks before long work."""


class HttpResponse(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Keys in lower case. Several warnings are joined with ``, `` as HTTP allows."""
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    """Set instead of a body where the response is open-ended, as a watch is. Chunks end
    where the server flushed, not where a line ends. The receiver closes it with
    :func:`close_stream`. Long lists are sent so too: a transport whose request does not
    :func:`ask for a stream <asks_for_stream>` collects the chunks."""
    taken: Callable[[], None] | None = None
    """Called once by the transport that carries a body, when the client has taken it or never
    will."""
    lines: bytes = b""
    """More headers, as HTTP has them: lines that are the same for many responses, or need no
    check."""


def asks_for_stream(request: HttpRequest) -> bool:
    """Whether a successful response to it is open-ended."""
    return request.stream is not None or (
        request.method == "GET"
        and any(
            key in ("watch", "follow") and value != "0" and value.lower() != "false"
            for key, value in request.query
        )
    )


async def close_stream(stream: AsyncIterator[object] | None) -> None:
    """Close a stream before its end, so that its sender stops."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


class Transport(Protocol):
    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        """Carry one request. ``timeout`` bounds the time to the response's head and, when
        it is not a stream, to its last byte.

        Raises only :class:`datum_compute.client.errors.TransportFailure`; a refusal
        is a response. Redirects are responses too and are never followed.
        """
        ...

    async def close(self) -> None: ...


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""A server's side of the seam."""

AnswerNow = Callable[[HttpRequest], HttpResponse | None]
"""The response to a request for which a server need not wait; None where its handler gives it."""


class ServerGone(Exception):
    """Raised by a handler, or out of its stream, when the server is stopped.

    In process it takes the place of a refused or broken connection.
    """

    def __init__(self, message: str = "the server is stopped", *, accepted: bool = False) -> None:
        super().__init__(message)
        self.accepted = accepted
        """The server had accepted the request, so a write may have happened."""
