"""One request: the Instance that serves it, and its bodies in both directions at once.

An Instance that refuses the connection is passed over for the next, whatever the request is:
nothing was sent. One that closes the connection without a byte of an answer is passed over only
where the request is safe to repeat. Once an answer has begun it is never repeated: the client's
connection is aborted, so that it does not take a part for the whole.

An Instance may end before the report arrives that its successor is available. So a request that no
Instance has taken waits for a moment for one that was not tried. Where packets to one that has
ended are lost, TCP sends the next after a second: the next Instance is tried meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from datum_compute.decisions.routing import Backend, HttpRoute, decide_backend
from datum_compute.router import messages
from datum_compute.router.messages import BadMessage, Framing, RequestHead, ResponseHead
from datum_compute.router.upstreams import Upstream, Upstreams
from datum_compute.runtime.tasks import TaskGroup

RESPONSE_SECONDS = 60.0
"""From the last byte of a request to the head of its response; nginx waits as long."""
BODY_SECONDS = 300.0
"""Without a byte of a body in either direction. A guess: longer than streams of events pause."""
TUNNEL_SECONDS = 3600.0
"""Without a byte on a connection that has switched to WebSocket. A guess."""
SUCCESSOR_SECONDS = 2.0
"""From the arrival of a request, until it is given up that no Instance has taken. A guess: reports
of a cell arrive in a tenth of that."""
LOOK_SECONDS = 0.05
ATTEMPT_SECONDS = 0.15
"""For an Instance to accept, until the next one is tried too. A guess: on one machine a connection
takes a thousandth of that, and the first packet is sent again after a second."""
RETRY_AFTER_SECONDS = 1


class RouterRefusal(Exception):
    """What the router answers itself."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


class _NoAnswer(Exception):
    """The Instance closed the connection without an answer."""


@dataclass(slots=True)
class ClientConnection:
    """The connection a request came on."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    peer: str
    is_body_read: bool = True
    """Whether the present request was read to its end."""


@dataclass(slots=True)
class Exchanges:
    """Carries out requests. All those of a router share its connections to Instances."""

    upstreams: Upstreams = field(default_factory=Upstreams)
    _turns: Iterator[int] = field(default_factory=count)

    async def forward(
        self,
        client: ClientConnection,
        request: RequestHead,
        route: HttpRoute,
        find: Callable[[], HttpRoute | None],
    ) -> bool:
        """``find`` has the present route. Returns whether the client's connection can take another
        request. Raises RouterRefusal, and ``ConnectionError`` or ``TimeoutError`` where the
        client's connection is lost or an answer breaks off."""
        deadline = asyncio.get_running_loop().time() + SUCCESSOR_SECONDS
        failed: dict[Backend, str] = {}
        while upstream := await self._connect(request, route, find, failed, deadline):
            reusable = False
            try:
                keep_alive, reusable = await self._exchange(client, request, upstream)
                return keep_alive
            except _NoAnswer as error:
                if not request.is_safe:
                    raise RouterRefusal(
                        502,
                        "NoAnswer",
                        f"Instance {upstream.backend.instance} closed the connection before it"
                        " answered; it may have processed the request.",
                    ) from error
                if not upstream.is_reused:
                    failed[upstream.backend] = "closed the connection before it answered"
            finally:
                self.upstreams.release(upstream, reusable=reusable)
        reasons = "; ".join(f"{each.instance} {why}" for each, why in failed.items())
        raise RouterRefusal(
            503,
            "NoInstanceAnswers",
            f"No available instance answers on port {next(iter(failed)).port}: {reasons}.",
            RETRY_AFTER_SECONDS,
        )

    async def _connect(
        self,
        request: RequestHead,
        route: HttpRoute,
        find: Callable[[], HttpRoute | None],
        failed: dict[Backend, str],
        deadline: float,
    ) -> Upstream | None:
        """A connection to an Instance that has not ``failed``; None where there is none until
        ``deadline``. One that does not accept at once is waited for while others are tried."""
        loop = asyncio.get_running_loop()
        attempts: dict[asyncio.Task[Upstream], Backend] = {}
        try:
            while True:
                tried = [*failed, *attempts.values()]
                backend = decide_backend(route, tried, self.upstreams.load, next(self._turns))
                if backend is not None:
                    if request.is_safe and (idle := self.upstreams.reuse(backend)):
                        return idle
                    attempts[loop.create_task(self.upstreams.connect(backend))] = backend
                elif not attempts:
                    if loop.time() >= deadline:
                        return None
                    await asyncio.sleep(LOOK_SECONDS)
                if attempts:
                    seconds = LOOK_SECONDS if backend is None else ATTEMPT_SECONDS
                    await asyncio.wait(
                        attempts, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
                    )
                for task in [each for each in attempts if each.done()]:
                    backend = attempts.pop(task)
                    try:
                        return task.result()
                    except OSError as error:
                        failed[backend] = _describe(error)
                route = find() or route
        finally:
            for task in attempts:
                task.add_done_callback(self._give_back)
                task.cancel()

    def _give_back(self, attempt: asyncio.Task[Upstream]) -> None:
        """A connection that came after another one."""
        if not attempt.cancelled() and attempt.exception() is None:
            self.upstreams.release(attempt.result(), reusable=True)

    async def _exchange(
        self, client: ClientConnection, request: RequestHead, upstream: Upstream
    ) -> tuple[bool, bool]:
        """Whether the client's connection, and the Instance's, can take another request."""
        client.is_body_read = request.framing == messages.EMPTY
        pump: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(RESPONSE_SECONDS if client.is_body_read else None) as limit:
                _send_to(upstream, request.render(client.peer))
                if not client.is_body_read:
                    sending = _send_body(client, request, upstream, limit)
                    pump = asyncio.get_running_loop().create_task(sending)
                response = await self._response(client, request, upstream)
        except TimeoutError as error:
            raise RouterRefusal(
                504,
                "NoAnswerInTime",
                f"Instance {upstream.backend.instance} has not answered for"
                f" {RESPONSE_SECONDS:g} seconds.",
            ) from error
        except BadMessage as error:
            raise RouterRefusal(
                502, "InvalidAnswer", f"Instance {upstream.backend.instance}: {error}."
            ) from error
        except (ConnectionError, _NoAnswer):
            if pump is not None and pump.done() and not pump.cancelled() and pump.exception():
                pump.result()  # it was the client's fault
            raise
        else:
            if response.status == 101:
                await _tunnel(client, response, upstream)
                return False, False
            return await _send_response(client, request, response, upstream)
        finally:
            if pump is not None:
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)

    async def _response(
        self, client: ClientConnection, request: RequestHead, upstream: Upstream
    ) -> ResponseHead:
        while True:
            try:
                head = await messages.read_head(upstream.reader)
            except ConnectionError as error:
                raise _NoAnswer from error
            if not head:
                raise _NoAnswer
            response = messages.parse_response(head, to=request.method)
            if response.status == 101 and not request.upgrade:
                raise BadMessage("it switches to a protocol that the request does not name")
            if not response.is_interim:
                return response
            if request.is_http_1_1:
                messages.send(client.writer, response.render(messages.EMPTY, keep_alive=True))


async def _send_body(
    client: ClientConnection, request: RequestHead, upstream: Upstream, limit: asyncio.Timeout
) -> None:
    """The request's body to the Instance; the time for the response begins with its last byte."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(BODY_SECONDS) as idle:
            async for part in messages.read_body(client.reader, request.framing):
                _send_to(upstream, messages.frame(part, request.framing))
                await _drain(upstream.writer)
                idle.reschedule(loop.time() + BODY_SECONDS)
        _send_to(upstream, messages.end_of(request.framing))
        client.is_body_read = True
        with suppress(RuntimeError):  # the answer has come already
            limit.reschedule(loop.time() + RESPONSE_SECONDS)
    except TimeoutError as error:
        upstream.abort()
        raise RouterRefusal(
            408, "RequestTooSlow", f"No byte of the request moved for {BODY_SECONDS:g} seconds."
        ) from error
    except BadMessage as error:
        upstream.abort()
        raise RouterRefusal(
            error.status, "BadRequest", f"The request is refused: {error}."
        ) from error
    except ConnectionError:
        upstream.abort()
        raise


def _send_to(upstream: Upstream, data: bytes) -> None:
    """To an Instance; one that is gone, perhaps after its answer, is found by whoever reads."""
    if not upstream.writer.is_closing():
        upstream.writer.write(data)


async def _drain(writer: asyncio.StreamWriter) -> None:
    """Until there is room, as :func:`_send_to`."""
    try:
        await writer.drain()
    except ConnectionError:
        pass


async def _send_response(
    client: ClientConnection, request: RequestHead, response: ResponseHead, upstream: Upstream
) -> tuple[bool, bool]:
    framing = response.framing
    if framing.length is None and not response.bodiless:
        framing = Framing(chunked=request.is_http_1_1)
    ends_by_close = framing == Framing() and not response.bodiless
    keep_alive = request.keep_alive and client.is_body_read and not ends_by_close
    messages.send(client.writer, response.render(framing, keep_alive=keep_alive))
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(BODY_SECONDS) as idle:
        if not response.bodiless:
            try:
                async for part in messages.read_body(upstream.reader, response.framing):
                    messages.send(client.writer, messages.frame(part, framing))
                    await client.writer.drain()
                    idle.reschedule(loop.time() + BODY_SECONDS)
            except BadMessage as error:
                raise ConnectionResetError(str(error)) from error
            messages.send(client.writer, messages.end_of(framing))
        await client.writer.drain()
    return keep_alive, response.keep_alive and client.is_body_read


async def _tunnel(client: ClientConnection, response: ResponseHead, upstream: Upstream) -> None:
    """Bytes in both directions until both have ended; each may end by itself."""
    loop = asyncio.get_running_loop()
    messages.send(client.writer, response.render(messages.EMPTY, keep_alive=True))

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(messages.CHUNK):
            messages.send(writer, part)
            await writer.drain()
            idle.reschedule(loop.time() + TUNNEL_SECONDS)
        messages.send_end(writer)

    async with asyncio.timeout(TUNNEL_SECONDS) as idle:
        async with TaskGroup("tunnel") as both:
            both.start(copy(client.reader, upstream.writer), name="to the instance")
            both.start(copy(upstream.reader, client.writer), name="to the client")


def _describe(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "does not accept connections"
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections"
    return f"cannot be reached: {error.strerror or error}"
