"""A session whose requests a test intercepts."""

from __future__ import annotations

import asyncio
import io
import shlex
from argparse import Namespace
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from datum_compute.cli.context import Destination, Runner, Streams
from datum_compute.cli.main import main
from datum_compute.client.client import ApiClient
from datum_compute.client.in_process import InProcessTransport
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.env import Environment
from tests.support.cli.session import (
    PROGRAM,
    TOKEN,
    CliSession,
    CommandResult,
    SessionDestination,
    SessionReach,
    SessionRunner,
)

T = TypeVar("T")

Interception = Callable[[HttpRequest, int], Awaitable[HttpResponse | None]]
"""What to answer to the n-th request, counted from 1; None lets it pass."""


@dataclass
class _Way(SessionDestination):
    reach: _Reach | None = None

    def client(self) -> ApiClient:
        client = super().client()
        reach = self.reach
        assert reach is not None
        return ApiClient(
            InProcessTransport(reach.handle),
            cluster=self.project,
            prefix=client._prefix,
            token=self.token,
            user_agent=PROGRAM,
            field_manager=PROGRAM,
            field_validation="Strict",
        )


@dataclass
class _Runner(SessionRunner):
    reach: _Reach

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """As asyncio's own runner does it: Ctrl-C cancels what runs, and is raised then."""
        self.reach.task = self.session.loop.create_task(coro)
        try:
            found: T = self.session.loop.run_until_complete(self.reach.task)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        return found


@dataclass
class _Reach(SessionReach):
    answer: Interception
    after: Interception | None
    seen: list[HttpRequest] = field(default_factory=list)
    task: asyncio.Task[Any] | None = None

    def runner(self) -> Runner:
        return _Runner(self.session, self)

    async def interrupt(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.sleep(3600)  # until the cancellation arrives here

    def find(self, env: Environment, args: Namespace) -> Destination:
        project = args.project or self.session.platform.settings.project
        return _Way(self.session, project, args.token or TOKEN, self)

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.path.endswith("/serviceentitlements/compute") and request.method == "GET":
            return await self.session.platform.server.handle(request)  # the check before a command
        self.seen.append(request)
        number = len(self.seen)
        answered = await self.answer(request, number)
        if answered is not None:
            return answered
        response = await self.session.platform.server.handle(request)
        if self.after is not None:
            answered = await self.after(request, number)
            if answered is not None:
                return answered
        return response


@dataclass
class InterceptedSession:
    """A session whose requests are intercepted before they reach the platform."""

    session: CliSession
    answer: Interception
    after: Interception | None = None
    requests: list[HttpRequest] = field(default_factory=list)
    _reach: _Reach | None = None

    async def interrupt(self) -> None:
        """Ctrl-C, from within a request."""
        assert self._reach is not None
        await self._reach.interrupt()

    def run(self, line: str, stdin: str = "") -> CommandResult:
        out, err = io.StringIO(), io.StringIO()
        reach = self._reach = _Reach(self.session, self.answer, self.after)
        streams = Streams(io.StringIO(stdin), out, err)
        code = main(shlex.split(line), self.session.env, streams, reach=reach)
        self.requests = reach.seen
        return CommandResult(code, out.getvalue(), err.getvalue(), "")
