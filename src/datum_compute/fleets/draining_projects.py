"""Draining a project: it is not disengaged before it holds no more claims of this cell.

A project that has lost its last deployment in a cell may still hold claims created for it
there: one arrives late, another could not be released while the project was unreachable. A watch
proves neither, so the project is checked by a live list, one project at a time, until the list is
conclusive: often while the project is unreachable, rarely once it has refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from datum_compute.client import errors
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.backoff import RECONNECT, Backoff

logger = get_logger(__name__)

DRAIN_SECONDS = 45.0
"""How long a claim may still arrive after the last deployment is deleted: as long as an abandoned
request may take."""

ANSWER_SECONDS = 5.0

PAUSE_SECONDS = 0.1
"""The pause after a check without an answer: thousands of projects may be unreachable at once, all
through the same connection."""

REFUSED = Backoff(base_seconds=1.0, cap_seconds=600.0)
"""Back-off for a project that refuses the list: a person must act."""


@dataclass(slots=True, eq=False)
class _Drain:
    conclusive_from: float
    """The loop's time after which no request for a claim can still be under way."""
    timer: asyncio.TimerHandle | None = None
    failures: int = 0
    refused: bool = False


class DrainingProjects:
    """``holds`` checks whether a project holds claims of this cell. ``found`` is called for one
    that does, and ``drained`` for one that does not and never will."""

    def __init__(
        self,
        env: Environment,
        holds: Callable[[str], Awaitable[bool]],
        *,
        found: Callable[[str], None],
        drained: Callable[[str], None],
    ) -> None:
        self._holds = holds
        self._found = found
        self._drained = drained
        self._chance = env.random("fleets.farewells").random
        self._open: dict[str, _Drain] = {}
        self._due: asyncio.Queue[tuple[str, _Drain]] = asyncio.Queue()

    def __contains__(self, project: str) -> bool:
        return project in self._open

    def begin(self, project: str, *, check_in: float) -> None:
        now = asyncio.get_running_loop().time()
        drain = self._open[project] = _Drain(now + DRAIN_SECONDS)
        self._check_in(project, drain, check_in)

    def cancel(self, project: str) -> None:
        """The project has a deployment again."""
        drain = self._open.pop(project, None)
        if drain is not None and drain.timer is not None:
            drain.timer.cancel()

    def stop(self) -> None:
        for project in list(self._open):
            self.cancel(project)

    async def run(self) -> None:
        """Check projects until cancelled."""
        while True:
            project, drain = await self._due.get()
            if self._open.get(project) is drain:
                await self._check(project, drain)

    async def _check(self, project: str, drain: _Drain) -> None:
        checked_at = asyncio.get_running_loop().time()
        holds = await self._answer(project, drain)
        if self._open.get(project) is not drain:
            return  # cancelled during the check
        if holds is None:
            backoff = REFUSED if drain.refused else RECONNECT
            delay = backoff.delay(drain.failures, self._chance())
            self._check_in(project, drain, max(1.0, delay))
            await asyncio.sleep(PAUSE_SECONDS)
        elif holds:
            self._found(project)
            self._check_in(project, drain, DRAIN_SECONDS)
        elif checked_at < drain.conclusive_from:
            self._check_in(project, drain, drain.conclusive_from - checked_at)
        else:
            del self._open[project]
            self._drained(project)

    async def _answer(self, project: str, drain: _Drain) -> bool | None:
        """None where the project did not answer, or refused."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._holds(project)
        except Exception as error:  # noqa: BLE001  # a credential may be bad in any way
            refused = not isinstance(error, errors.TransportFailure | TimeoutError)
            drain.failures = drain.failures + 1 if refused == drain.refused else 0
            if refused and not drain.refused:
                logger.warning(
                    "a draining project refuses to list its claims",
                    cluster=project,
                    reason=str(error)[:300],
                )
            drain.refused = refused
            return None

    def _check_in(self, project: str, drain: _Drain, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        drain.timer = loop.call_later(seconds, self._due.put_nowait, (project, drain))
