"""Leaving a project in order: not before it has said that it holds nothing of ours.

A project that has lost its last deployment in a cell may still hold claims that were made for
it there: one was asked for and arrives late, another could not be given up while the project
was away. What a watch shows says little about either, and a process that has just started has
no watch, so the project itself is asked, one after the other and one at a time, for as long as
it takes: often while it may be back any moment, seldom once it has refused.
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
"""How long a project may still get something from us after its last deployment has gone: as
long as a request may take that nobody waits for any more."""

ANSWER_SECONDS = 5.0

PAUSE_SECONDS = 0.1
"""After a question that was not answered. Thousands of projects may be away at once, and the
line to all of them is the same."""

REFUSED = Backoff(base_seconds=1.0, cap_seconds=600.0)
"""A project that answers, and will not say: a person must act."""


@dataclass(slots=True, eq=False)
class _Farewell:
    conclusive_from: float
    """By the loop's clock: when nothing can be under way any more."""
    timer: asyncio.TimerHandle | None = None
    failures: int = 0
    refused: bool = False


class DrainingProjects:
    """``holds`` asks a project whether it holds anything of ours. ``found`` is told of one that
    does, and ``left`` of one that does not and never will."""

    def __init__(
        self,
        env: Environment,
        holds: Callable[[str], Awaitable[bool]],
        *,
        found: Callable[[str], None],
        left: Callable[[str], None],
    ) -> None:
        self._holds = holds
        self._found = found
        self._left = left
        self._chance = env.random("fleets.farewells").random
        self._open: dict[str, _Farewell] = {}
        self._due: asyncio.Queue[tuple[str, _Farewell]] = asyncio.Queue()

    def __contains__(self, project: str) -> bool:
        return project in self._open

    def begin(self, project: str, *, ask_in: float) -> None:
        now = asyncio.get_running_loop().time()
        farewell = self._open[project] = _Farewell(now + DRAIN_SECONDS)
        self._ask(project, farewell, ask_in)

    def cancel(self, project: str) -> None:
        """It is here again."""
        farewell = self._open.pop(project, None)
        if farewell is not None and farewell.timer is not None:
            farewell.timer.cancel()

    def stop(self) -> None:
        for project in list(self._open):
            self.cancel(project)

    async def run(self) -> None:
        """For ever."""
        while True:
            project, farewell = await self._due.get()
            if self._open.get(project) is farewell:
                await self._look(project, farewell)

    async def _look(self, project: str, farewell: _Farewell) -> None:
        asked_at = asyncio.get_running_loop().time()
        holds = await self._answer(project, farewell)
        if self._open.get(project) is not farewell:
            return  # called off while it was asked
        if holds is None:
            backoff = REFUSED if farewell.refused else RECONNECT
            delay = backoff.delay(farewell.failures, self._chance())
            self._ask(project, farewell, max(1.0, delay))
            await asyncio.sleep(PAUSE_SECONDS)
        elif holds:
            self._found(project)
            self._ask(project, farewell, DRAIN_SECONDS)
        elif asked_at < farewell.conclusive_from:
            self._ask(project, farewell, farewell.conclusive_from - asked_at)
        else:
            del self._open[project]
            self._left(project)

    async def _answer(self, project: str, farewell: _Farewell) -> bool | None:
        """None when it gave none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._holds(project)
        except Exception as error:  # noqa: BLE001  # a credential may be bad in any way
            refused = not isinstance(error, errors.TransportFailure | TimeoutError)
            farewell.failures = farewell.failures + 1 if refused == farewell.refused else 0
            if refused and not farewell.refused:
                logger.warning(
                    "a project does not say what it holds", cluster=project, reason=str(error)[:300]
                )
            farewell.refused = refused
            return None

    def _ask(self, project: str, farewell: _Farewell, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        farewell.timer = loop.call_later(seconds, self._due.put_nowait, (project, farewell))
