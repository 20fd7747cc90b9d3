"""Serves the console on a loopback port of the platform, opened with the first link.

::

    GET  /console/             the page and its files
    POST /console/session      {"code"}: exchange a link for a session
    GET  /console/stream       the models of the session, as text/event-stream
    GET  /console/logs         lines of instances as they come, one JSON value a line
    GET  /console/revision     one revision in full
    POST /console/plan         what a change would do
    POST /console/run          make the change

Plain HTTP, because a browser does not know the certificate of a local platform; it never leaves
the machine. Every path but the page and its files asks for the token of a session, which only the
page has. Requests that another site started, or that name another host, are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

from datum_compute.api.planes import PROJECT, plane_prefix
from datum_compute.apiserver.http.listener import serve_plain
from datum_compute.cli.console import changes, models
from datum_compute.cli.console.board import Board
from datum_compute.cli.console.live import Live
from datum_compute.cli.console.project import CopiedProject
from datum_compute.cli.console.sessions import LINK_LIFE, ConsoleGrant, Sessions
from datum_compute.cli.errors import PROGRAM, CommandError
from datum_compute.cli.explain.suggestions import Command, Invocation
from datum_compute.cli.names import is_name, is_project
from datum_compute.cli.tables import NAMESPACE, WORKLOADS
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.tasks import stop_tasks

HOST = "127.0.0.1"
PATH = "/console/"
MAX_CONNECTIONS = 128
MAX_STREAMS = 6
"""Open streams of one session: a page has one, and one more while it follows logs."""
MAX_BODY = 64 * 1024

SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

Body = TypeVar("Body")
_log = get_logger(__name__)


class _LinkRequest(msgspec.Struct, forbid_unknown_fields=True):
    project: str
    allow_writes: bool = msgspec.field(name="allowWrites", default=False)
    program: str = PROGRAM
    flags: list[tuple[str, str]] = []


class _SessionRequest(msgspec.Struct, forbid_unknown_fields=True):
    code: str


class Refused(Exception):
    """Ends a request with this status and message; the hint is a command to run."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.hint = hint


Listen = Callable[..., AbstractAsyncContextManager[int]]
"""As :func:`serve_plain`; tests replace it."""


@asynccontextmanager
async def serve_console(
    env: Environment, handler: Handler, listen: Listen = serve_plain
) -> AsyncIterator[Handler]:
    """Gives what answers requests for a link."""
    async with AsyncExitStack() as stack:
        console = Console(env, handler, stack, listen)
        stack.push_async_callback(console.close)
        yield console.make_link


class Console:
    def __init__(
        self, env: Environment, handler: Handler, stack: AsyncExitStack, listen: Listen
    ) -> None:
        self._env = env
        self._listen = listen
        self._handler = handler
        self._stack = stack
        self._sessions: Sessions[Live] = Sessions(env)
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0
        self._opening = asyncio.Lock()
        self._files = page_files()
        self._routes: dict[tuple[str, str], Callable[[HttpRequest, Live], Awaitable[Any]]] = {
            ("GET", "stream"): self._stream,
            ("GET", "logs"): self._logs,
            ("GET", "revision"): self._revision,
            ("POST", "plan"): self._plan,
            ("POST", "run"): self._run,
        }

    async def close(self) -> None:
        await stop_tasks(list(self._tasks))

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except Exception:  # noqa: BLE001 - our bug in one session must not end the platform
                _log.exception("console task failed", task=name)

        task = asyncio.get_running_loop().create_task(guarded(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Links

    async def make_link(self, request: HttpRequest) -> HttpResponse:
        """For a user whom the API server has authenticated."""
        try:
            wanted = msgspec.json.decode(request.body, type=_LinkRequest)
        except msgspec.MsgspecError as error:
            return _invalid(str(error))
        if not is_project(wanted.project):
            return _invalid(f'project "{wanted.project}": expected lower-case letters, digits, -')
        header = request.headers.get("authorization", "")
        # Read once with the user's rights, so that who may not read learns it here.
        path = plane_prefix(PROJECT.plane(wanted.project)) + WORKLOADS.path(NAMESPACE)
        headers = {"authorization": header, "accept": "application/json"}
        tried = await self._handler(HttpRequest("GET", path, (("limit", "1"),), headers))
        if tried.status != 200:
            return tried
        await self._open()
        token, invocation = header.partition(" ")[2].strip(), (wanted.program, tuple(wanted.flags))
        grant = ConsoleGrant(token, wanted.project, wanted.allow_writes, Invocation(*invocation))
        url = f"http://{HOST}:{self._port}{PATH}#{self._sessions.new_link(grant)}"
        return _json(201, {"url": url, "seconds": int(LINK_LIFE.total_seconds())})

    async def _open(self) -> None:
        async with self._opening:
            if self._port:
                return
            serving = self._listen(
                self.handle, host=HOST, end=self._end_streams, max_connections=MAX_CONNECTIONS
            )
            self._port = await self._stack.enter_async_context(serving)
            _log.info("console served", address=f"http://{HOST}:{self._port}{PATH}")

    def _end_streams(self) -> None:
        for session in self._sessions.all():
            session.end()

    # Requests of the page

    async def handle(self, request: HttpRequest) -> HttpResponse:
        try:
            found = await self._respond(request)
        except Refused as refused:
            found = _json(refused.status, {"error": str(refused), "hint": refused.hint})
        except Exception:  # noqa: BLE001 - our bug in one request must not end the others
            _log.exception("console request failed", path=request.path)
            found = _json(500, {"error": "the console has failed; see the log of the platform"})
        return msgspec.structs.replace(found, headers={**SECURITY, **found.headers})

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        self._check_origin(request)
        prefix, name = request.path[: len(PATH)], request.path[len(PATH) :]
        file = self._files.get(name or "index.html") if prefix == PATH else None
        if file is not None and request.method in ("GET", "HEAD"):
            return HttpResponse(200, {"content-type": TYPES[file[0]]}, file[1])
        if prefix == PATH and (request.method, name) == ("POST", "session"):
            return self._begin(request)
        route = self._routes.get((request.method, name)) if prefix == PATH else None
        if route is None:
            raise Refused(404, "not found")
        session = self._session(request)
        try:
            answer = await route(request, session)
        except CommandError as error:
            hints = [session.grant.invocation.render(each) for each in error.suggestions]
            status = 409 if error.code == "Conflict" else 422
            raise Refused(status, error.message, ", or ".join(hints)) from error
        return answer if isinstance(answer, HttpResponse) else _json(200, answer)

    def _check_origin(self, request: HttpRequest) -> None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in (f"{HOST}:{self._port}", f"localhost:{self._port}"):
            raise Refused(421, f'host "{host}" is not this console')  # a name of another site
        if origin is not None and origin != f"http://{host}":
            raise Refused(403, f'origin "{origin}" is not this console')
        site = request.headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none") and request.path != PATH:
            raise Refused(403, "another site made this request")

    def _session(self, request: HttpRequest) -> Live:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        session = self._sessions.find(token) if scheme == "Bearer" else None
        if session is None:
            raise Refused(401, "this session has ended", f"{PROGRAM} console")
        return session

    def _begin(self, request: HttpRequest) -> HttpResponse:
        grant = self._sessions.redeem(_decoded(request, _SessionRequest).code)
        if grant is None:
            why = "this link was used already, or is older than a minute"
            raise Refused(401, why, f"{PROGRAM} console")
        now = self._env.now()
        project = CopiedProject(self._env, self._handler, grant)
        board = Board(self._env.new_token()[:8])
        live = Live(grant, now, self._env, project, board, self._start)
        token, ended = self._sessions.add(live)
        for each in ended:
            each.end()
        # The flags of a command line come last: the page puts its words between.
        program, _, flags = grant.invocation.render(Command(("WORDS",))).partition(" WORDS")
        session = {"token": token, "project": grant.project, "allowWrites": grant.allow_writes}
        return _json(200, session | {"program": program, "flags": flags, "now": now.isoformat()})

    async def _stream(self, request: HttpRequest, session: Live) -> HttpResponse:
        _check_streams(session)
        focus = _name(request, "focus") if dict(request.query).get("focus") else ""
        chunks = session.watch(focus, request.headers.get("last-event-id", ""))
        return HttpResponse(200, {"content-type": "text/event-stream"}, stream=chunks)

    async def _logs(self, request: HttpRequest, session: Live) -> HttpResponse:
        _check_streams(session)
        chunks = await session.follow_logs(_name(request, "name"))
        return HttpResponse(200, {"content-type": "application/x-ndjson"}, stream=chunks)

    async def _revision(self, request: HttpRequest, session: Live) -> dict[str, Any]:
        number = dict(request.query).get("number", "")
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            raise Refused(422, f'number "{number}": expected a revision such as 4')
        return await session.project.read(models.revision(_name(request, "name"), int(number)))

    async def _plan(self, request: HttpRequest, session: Live) -> dict[str, Any]:
        return await changes.plan(session.project, _change(request, session))

    async def _run(self, request: HttpRequest, session: Live) -> dict[str, Any]:
        return await changes.carry_out(session.project, _change(request, session))


def _check_streams(session: Live) -> None:
    if session.streams >= MAX_STREAMS:
        raise Refused(429, f"this session has {MAX_STREAMS} streams open already")


def _change(request: HttpRequest, session: Live) -> changes.Change:
    if not session.grant.allow_writes:
        hint = f"{session.grant.invocation.program} console --allow-writes"
        raise Refused(403, "this console is read-only", hint)
    return _decoded(request, changes.Change)


def _name(request: HttpRequest, key: str) -> str:
    found = dict(request.query).get(key, "")
    if not is_name(found):
        raise Refused(422, f'{key} "{found}": expected the name of a workload or an instance')
    return found


def _decoded(request: HttpRequest, kind: type[Body]) -> Body:
    if len(request.body) > MAX_BODY:
        raise Refused(413, f"expected at most {MAX_BODY} bytes")
    try:
        return msgspec.json.decode(request.body, type=kind)
    except msgspec.MsgspecError as error:
        raise Refused(422, str(error)) from error


def _json(status: int, value: Any) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json"}, msgspec.json.encode(value))


def _invalid(message: str) -> HttpResponse:
    """As the API says it: this one goes to a client of the API."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422}
    return _json(422, status | {"reason": "Invalid", "message": message})


def page_files() -> dict[str, tuple[str, bytes]]:
    """The files of the page by path, with their type. Nothing else is ever served."""
    found: dict[str, tuple[str, bytes]] = {}
    root = files("datum_compute.cli.console") / "page"
    for folder in (root, root / "vendor"):
        prefix = "" if folder is root else "vendor/"
        for file in folder.iterdir():
            type = file.name.rpartition(".")[2]
            if type in TYPES:
                found[prefix + file.name] = type, file.read_bytes()
    return found
