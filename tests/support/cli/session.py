"""Commands on a whole local platform, on virtual time and without a socket.

Commands run unchanged; only the transport differs: the reader and the client hand their
requests to the embedded server in process, and waits happen on the virtual loop. So every
screen is the same in every run, and an hour of waiting takes no time.

A transcript has the commands and their output; lines of stderr begin with ▌.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
from argparse import Namespace
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import yaml

from datum_compute.api import planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.assembly.local.platform import ADMIN, LocalPlatform
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.cli.context import Destination, Reach, Runner, Streams
from datum_compute.cli.main import main
from datum_compute.cli.quick.reader import Reader
from datum_compute.cli.target import ProjectTarget, find_target
from datum_compute.client import errors
from datum_compute.client.call import AnyCall
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.protocol import Client
from datum_compute.client.transport import HttpRequest
from datum_compute.env import Environment
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import VirtualLoop

T = TypeVar("T")

TOKEN = "at-the-desk"
PROGRAM = "datumctl-compute"


class SessionEnvironment(SimulatedEnvironment):
    """Its clock goes on between commands, when no loop runs."""

    loop: VirtualLoop

    def now(self) -> Any:
        return self.start + timedelta(seconds=self.loop.time())


class SessionReader(Reader):
    """Reads from the embedded server by running the loop until it has answered."""

    session: CliSession

    def _send(self, url: str, headers: dict[str, str], call: AnyCall) -> tuple[int, str, bytes]:
        self.session.fail_if_broken(call)
        parts = urlsplit(url)
        path = unquote(parts.path)
        if self.session.without_logs and path.endswith("/log"):
            return 404, "", b"404 page not found\n"
        canned = self.session.logs.get(path.rpartition("/instances/")[2])
        if canned is not None:
            self.session.log_queries.append(dict(parse_qsl(parts.query)))
            return 200, "", canned.encode()
        request = HttpRequest(
            "GET",
            path,
            tuple(parse_qsl(parts.query, keep_blank_values=True)),
            {key.lower(): value for key, value in headers.items()},
        )
        response = self.session.loop.run_until_complete(
            InProcessTransport(self.session.platform.server.handle).send(request)
        )
        return response.status, response.headers.get("retry-after", ""), response.body

    def _open(
        self, url: str, headers: dict[str, str], call: AnyCall
    ) -> tuple[int, str, Iterator[bytes]]:
        status, retry_after, body = self._send(url, headers, call)
        return status, retry_after, iter([body])


@dataclass
class SessionDestination:
    session: CliSession
    project: str
    token: str = TOKEN

    @property
    def local_directory(self) -> str:
        return self.session.local_directory

    def reader(self) -> Reader:
        reader = SessionReader(
            "http://desk",
            cluster=self.project,
            prefix=planes.plane_prefix(f"project/{self.project}"),
            token=self.token,
        )
        reader.session = self.session
        return reader

    def root(self) -> Reader | None:
        reader = SessionReader("http://desk", cluster="root", token=self.token)
        reader.session = self.session
        return reader

    def root_client(self) -> ApiClient | None:
        return ApiClient(
            InProcessTransport(self.session.platform.server.handle),
            cluster="root",
            token=self.token,
            user_agent=PROGRAM,
        )

    def client(self) -> ApiClient:
        return ApiClient(
            InProcessTransport(self.session.platform.server.handle),
            cluster=self.project,
            prefix=planes.plane_prefix(f"project/{self.project}"),
            token=self.token,
            user_agent=PROGRAM,
            field_manager=PROGRAM,
            field_validation="Strict",
        )


@dataclass
class SessionReach(Reach):
    session: CliSession

    def find(self, env: Environment, args: Namespace) -> Destination:
        project = args.project or self.session.platform.settings.project
        return SessionDestination(self.session, project, args.token or TOKEN)

    def runner(self) -> Runner:
        return SessionRunner(self.session)

    def sleep(self, seconds: float) -> None:
        self.session.wait(seconds)


@dataclass
class ResolvedDestination(SessionDestination):
    """What flags, variables and files select, but without a socket: all servers are the embedded
    one, which gets the path and the token that a real one would get."""

    target: ProjectTarget | None = None

    def reader(self) -> Reader:
        return self._reader(self._target)

    def root(self) -> Reader | None:
        root = self._target.root_connection()
        return None if root is None else self._reader(self._target._replace(connection=root))

    def client(self) -> ApiClient:
        connection = self._target.connection
        return ApiClient(
            InProcessTransport(self.session.platform.server.handle),
            cluster=self.project,
            prefix=connection.prefix,
            token=connection.token,
            user_agent=PROGRAM,
            field_manager=PROGRAM,
            field_validation="Strict",
        )

    @property
    def _target(self) -> ProjectTarget:
        assert self.target is not None
        return self.target

    def _reader(self, target: ProjectTarget) -> Reader:
        reader = SessionReader(
            "http://desk",
            cluster=self.project,
            prefix=target.connection.prefix,
            token=target.connection.token,
        )
        reader.session = self.session
        return reader


@dataclass
class ResolvingReach(SessionReach):
    """Finds the target as a command in a terminal does."""

    def find(self, env: Environment, args: Namespace) -> Destination:
        target = find_target(env, args)
        return ResolvedDestination(self.session, target.project, target=target)


@dataclass
class SessionRunner:
    """Runs commands on the loop of the platform."""

    session: CliSession

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        return self.session.loop.run_until_complete(coro)

    def close(self) -> None: ...


class _Paper(io.StringIO):
    """One of two streams that end up in the same transcript, line by line."""

    def __init__(self, transcript: list[tuple[str, str]], mark: str) -> None:
        super().__init__()
        self._transcript = transcript
        self._mark = mark

    def write(self, text: str) -> int:
        self._transcript.append((self._mark, text))
        return super().write(text)


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str
    transcript: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class CliSession:
    loop: VirtualLoop
    env: SessionEnvironment
    platform: LocalPlatform
    logs: dict[str, str] = field(default_factory=dict)
    """Log lines that replace those of the platform: ``NAME/log`` -> lines."""
    local_directory: str = ""
    """As if the platform were one of this machine, with its state there."""
    without_logs: bool = False
    """As if the platform served none."""
    log_queries: list[dict[str, str]] = field(default_factory=list)

    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    """Called while a command runs."""

    seen: list[dict[str, Any]] | None = None
    """Takes the Workloads of the project as they are after each command."""

    broken_after: int | None = None
    """After this many plain reads the platform does not respond to them any more."""

    def fail_if_broken(self, call: AnyCall) -> None:
        if self.broken_after is not None:
            self.broken_after -= 1
            if self.broken_after < 0:
                raise errors.Disconnected("gone", call=call, server="http://desk")

    def run(self, line: str, stdin: str = "", reach: Reach | None = None) -> CommandResult:
        """Run a command line, split as in a shell, without the program's name."""
        written: list[tuple[str, str]] = []
        out, err = _Paper(written, ""), _Paper(written, "▌")
        argv = shlex.split(line)
        streams = Streams(io.StringIO(stdin), out, err)
        code = main(argv, self.env, streams, reach=reach or SessionReach(self))
        shown = _transcript(line, written, code)
        if self.seen is not None:
            self.seen += self._workloads()
        return CommandResult(code, out.getvalue(), err.getvalue(), shown)

    def _workloads(self) -> list[dict[str, Any]]:
        """From the store, so that no controller gets time to go on."""
        store = self.platform.store
        table = store.planes["project/demo"].table(compute.WORKLOADS.group_resource)
        return [json.loads(store.value(each)) for each in table.in_order(None)]

    def client(self, plane: str = "project/demo") -> Client:
        return self.platform.client(plane, ADMIN)

    def act(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def wait(self, seconds: float) -> None:
        self.act(asyncio.sleep(seconds))

    def wait_until(self, moment: float) -> None:
        """Wait until this many seconds after the start of the session."""
        assert moment >= self.loop.time(), f"it is {self.loop.time():.1f} already"
        self.wait(moment - self.loop.time())


@contextmanager
def cli_session(
    *cities: str,
    grant: dict[str, int] | None = None,
    variables: dict[str, str] | None = None,
    **settings_: Any,
) -> Iterator[CliSession]:
    """``settings_`` are further settings of the platform."""
    loop = VirtualLoop(0)
    env = SessionEnvironment(1, variables=variables)
    env.loop = loop
    settings = LocalSettings(cities=cities or ("DFW", "LHR"))
    if grant is not None:
        settings = LocalSettings(cities=settings.cities, grant={**settings.grant, **grant})
    settings = replace(settings, **settings_)
    platform = LocalPlatform(env, ":memory:", settings)
    ready, leave = loop.create_future(), asyncio.Event()

    async def live() -> None:
        async with platform.run(admin_token=TOKEN):
            ready.set_result(None)
            await leave.wait()

    living = loop.create_task(live(), name="platform")
    try:
        loop.run_until_complete(asyncio.wait([ready, living], return_when="FIRST_COMPLETED"))
        if living.done():
            living.result()
        yield CliSession(loop, env, platform)
    finally:
        leave.set()
        if not living.done():
            loop.run_until_complete(living)
        asyncio.set_event_loop(None)
        loop.close()


def _transcript(line: str, written: list[tuple[str, str]], code: int) -> str:
    lines = [f"$ {PROGRAM} {line}"]
    pending: dict[str, str] = {"": "", "▌": ""}
    for mark, text in written:
        pending[mark] += text
        *whole, pending[mark] = pending[mark].split("\n")
        lines += [(mark + each).rstrip() for each in whole]
    lines += [mark + rest for mark, rest in pending.items() if rest]
    if code:
        lines.append(f"[exit {code}]")
    return "\n".join(lines) + "\n"


def shorten_transcript(result: CommandResult, line: str) -> str:
    """The transcript of a command for programs, its raw objects replaced by their names.

    The content of an object belongs to the API; a screen only shows that it is there."""
    words = shlex.split(line)
    wanted = words[words.index("-o") + 1] if "-o" in words else "table"
    if wanted not in ("json", "yaml") or not result.out:
        return result.transcript
    value = _without_objects(
        json.loads(result.out) if wanted == "json" else yaml.safe_load(result.out)
    )
    if wanted == "json":
        assert result.out == json.dumps(json.loads(result.out), indent=2) + "\n"
        text = json.dumps(value, indent=2, ensure_ascii=False)
    else:
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip()
    talk = [f"▌{each}".rstrip() for each in result.err.splitlines()]
    end = [f"[exit {result.code}]"] if result.code else []
    return "\n".join([f"$ {PROGRAM} {line}", *talk, _steady(text), *end]) + "\n"


def _without_objects(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_objects(each) for each in value]
    if isinstance(value, dict):
        return {
            key: _named(each) if key == "object" else _without_objects(each)
            for key, each in value.items()
        }
    return value


def _named(obj: Any) -> str:
    if "metadata" not in obj:
        return f"<{obj['name']}>"
    return f"<{obj['kind']} {obj['metadata']['name']}>"


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


def _steady(text: str) -> str:
    return _TIME.sub("<time>", text)
