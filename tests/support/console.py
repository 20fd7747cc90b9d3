"""The page of the console without a browser: its requests go to the handler in process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from datum_compute.cli.console.server import serve_console
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse, close_stream
from tests.support.cli.session import TOKEN, CliSession

Json = dict[str, Any]
PORT = 4321
HOST = f"127.0.0.1:{PORT}"
LINKS = "/local/v1/console"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Message:
    """One message of a stream."""

    id: str
    event: str
    models: Json


@dataclass
class ServedConsole:
    """A platform with a console, and what a page does with it."""

    here: CliSession
    handler: Handler | None = None
    streams: list[Stream] = field(default_factory=list)

    def listen(self, handler: Handler, **_: Any) -> AbstractAsyncContextManager[int]:
        @asynccontextmanager
        async def open_port() -> AsyncIterator[int]:
            self.handler = handler
            yield PORT

        return open_port()

    def ask(self, project: str = "demo", token: str = TOKEN, **body: Any) -> Answer:
        """Ask the platform for a link, as the command does."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        content = json.dumps({"project": project, **body}).encode()
        request = HttpRequest("POST", LINKS, (), headers, content)
        return _answer(self.here.act(_whole(self.here.platform.server.handle, request)))

    def code(self, **asked: Any) -> str:
        answer = self.ask(**asked)
        assert answer.status == 201, answer.body
        return str(answer.json["url"].partition("#")[2])

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Json | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        request = self._request(method, path, body, query or {}, headers or {})
        assert self.handler is not None
        return _answer(self.here.act(_whole(self.handler, request)))

    def _request(
        self, method: str, path: str, body: Any, query: Json, headers: dict[str, str]
    ) -> HttpRequest:
        given = {"host": HOST, **headers}
        content = b"" if body is None else json.dumps(body).encode()
        pairs = tuple((key, str(value)) for key, value in query.items())
        return HttpRequest(method, path, pairs, given, content)

    def begin(self, **asked: Any) -> Page:
        """Follow a link; ``asked`` goes into the request for it."""
        session = self.call("POST", "/console/session", {"code": self.code(**asked)})
        assert session.status == 200, session.body
        return Page(self, session.json["token"], session.json)


@dataclass
class Page:
    served: ServedConsole
    token: str
    session: Json

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        header = {"authorization": f"Bearer {self.token}"}
        return self.served.call(method, f"/console/{path}", body, query, header)

    def stream(self, focus: str = "", last: str = "") -> Stream:
        request = self.served._request(
            "GET",
            "/console/stream",
            None,
            {"focus": focus},
            {"authorization": f"Bearer {self.token}", "last-event-id": last},
        )
        assert self.served.handler is not None
        response = self.served.here.act(_sent(self.served.handler, request))
        assert response.stream is not None, response.body
        opened = Stream(self.served.here, response.stream)
        self.served.streams.append(opened)
        return opened

    def plan(self, **change: Any) -> Answer:
        return self.call("POST", "plan", change)

    def carry_out(self, **change: Any) -> Answer:
        plan = self.plan(**change)
        assert plan.status == 200, plan.body
        return self.call("POST", "run", {**change, "generation": plan.json["generation"]})


@dataclass
class Stream:
    here: CliSession
    chunks: AsyncIterator[bytes]
    models: Json = field(default_factory=dict)
    """What a page would know."""
    last: str = ""
    taken: int = 0
    """Bytes that were read."""

    def next(self) -> Message:
        async def read() -> bytes:
            found = b""
            while not found.endswith(b"\n\n"):
                found += await anext(self.chunks)
            return found

        data = self.here.act(read())
        self.taken += len(data)
        lines = dict(line.split(": ", 1) for line in data.decode().strip().splitlines())
        message = Message(lines["id"], lines["event"], json.loads(lines["data"])["models"])
        if message.event == "snapshot":
            self.models.clear()
        for key, value in message.models.items():
            self.models.pop(key, None) if value is None else self.models.update({key: value})
        self.last = message.id
        return message

    def until(self, holds: Callable[[Json], Any], messages: int = 60) -> Any:
        for _ in range(messages):
            found = holds(self.models)
            if found:
                return found
            self.next()
        raise AssertionError(f"never in {messages} messages: {json.dumps(self.models)[:2000]}")

    def close(self) -> None:
        self.here.act(close_stream(self.chunks))


async def _sent(handler: Handler, request: HttpRequest) -> HttpResponse:
    return await handler(request)


async def _whole(handler: Handler, request: HttpRequest) -> HttpResponse:
    response = await handler(request)
    assert response.stream is None
    return response


def _answer(response: HttpResponse) -> Answer:
    return Answer(response.status, dict(response.headers), response.body)


@contextmanager
def served_console(here: CliSession) -> Iterator[ServedConsole]:
    """Serve the console of a platform while the block runs."""
    served = ServedConsole(here)
    leave = asyncio.Event()

    async def serve(ready: asyncio.Future[None]) -> None:
        handler = here.platform.server.handle
        async with serve_console(here.env, handler, served.listen) as make_link:
            here.platform.console = make_link
            ready.set_result(None)
            await leave.wait()

    async def begin() -> asyncio.Task[None]:
        ready = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(ready))
        await ready
        return task

    async def end(task: asyncio.Task[None]) -> None:
        leave.set()
        await task

    serving = here.act(begin())
    try:
        yield served
    finally:
        for each in served.streams:
            each.close()
        here.act(end(serving))
