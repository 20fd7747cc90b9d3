"""What the simulated provider did with each Instance, as the lines that Instance prints.

Nothing runs, so nothing prints; what is true and worth a line is the simulation itself. A
line is added when the state reported of an Instance changes, stamped with the wall clock, and
kept in memory: the last ones of each Instance, until it is removed. After a restart of the
provider the first line of an Instance that is still up says that earlier ones are gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import FALSE, ConditionState
from datum_compute.env import Environment
from datum_compute.providers import protocol
from datum_compute.providers.protocol import InstanceReport, LogLine

KEPT = 200
"""Lines of one Instance. Each is a change of its state, so few Instances have ten."""

FOUND_AGAIN = "simulated: still up; it was started before the platform was, earlier lines are gone"
STOPPED = "simulated: stopped"


class _Page:
    """The lines of one Instance."""

    __slots__ = ("dropped", "ended", "kept", "readers", "state")

    def __init__(self) -> None:
        self.kept: list[LogLine] = []
        self.dropped = 0
        """How many lines there were before the kept ones."""
        self.ended = False
        self.state: ConditionState | None = None
        """What was said last of whether it is available."""
        self.readers: dict[asyncio.Future[None], None] = {}
        """Whoever waits for the next line."""

    def wake(self) -> None:
        for reader in self.readers:
            if not reader.done():
                reader.set_result(None)


class InstanceLogs:
    """The lines of all Instances of one provider, by uid."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._pages: dict[str, _Page] = {}

    @property
    def uids(self) -> list[str]:
        """Whose lines are kept, or waited for."""
        return sorted(self._pages)

    def reported(self, instance: compute.Instance, report: InstanceReport) -> None:
        """Told as often as somebody asks; a line only where the state is another one."""
        page = self._page(instance.metadata.uid)
        if page.state != report.available:
            page.state = report.available
            self._add(page, _told(instance, report.available))

    def refused(self, uid: str, reason: str, message: str) -> None:
        """It does not run, for this reason."""
        page = self._page(uid)
        state = protocol.failed(reason, message)
        if page.state != state:
            page.state = state
            self._add(page, _in_words(state))

    def found_again(self, uid: str) -> None:
        page = self._page(uid)
        page.state = protocol.AVAILABLE
        self._add(page, FOUND_AGAIN)

    def removed(self, uid: str) -> None:
        """Its lines go with it; whoever follows them gets the last one."""
        page = self._pages.pop(uid, None)
        if page is not None:
            page.ended = True
            self._add(page, STOPPED)

    async def lines(
        self, uid: str, *, tail: int | None, since: datetime | None, follow: bool
    ) -> AsyncIterator[LogLine]:
        page = self._page(uid) if follow else self._pages.get(uid)
        if page is None:
            return
        seen = page.dropped + len(page.kept)
        try:
            for line in _chosen(page.kept, tail, since):
                yield line
            while follow:
                missed = page.kept[max(0, seen - page.dropped) :]
                seen = page.dropped + len(page.kept)
                for line in missed:
                    yield line
                if not missed:
                    if page.ended:
                        return
                    await _another(page)
        finally:
            # Of one that was awaited and never came nothing is to be left.
            if not page.kept and not page.readers and self._pages.get(uid) is page:
                del self._pages[uid]

    def _page(self, uid: str) -> _Page:
        page = self._pages.get(uid)
        if page is None:
            page = self._pages[uid] = _Page()
        return page

    def _add(self, page: _Page, text: str) -> None:
        page.kept.append(LogLine(self._env.now(), text))
        surplus = len(page.kept) - KEPT
        if surplus > 0:
            del page.kept[:surplus]
            page.dropped += surplus
        page.wake()


async def _another(page: _Page) -> None:
    reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    page.readers[reader] = None
    try:
        await reader
    finally:
        del page.readers[reader]


def _chosen(kept: list[LogLine], tail: int | None, since: datetime | None) -> list[LogLine]:
    found = [line for line in kept if since is None or line.at >= since]
    return found if tail is None else found[max(0, len(found) - tail) :]


def _told(instance: compute.Instance, available: ConditionState) -> str:
    if available == protocol.PROVISIONING:
        return f"simulated: starting {_what(instance)}"
    if available == protocol.AVAILABLE:
        return f"simulated: started {_what(instance)} (no container runs)"
    return _in_words(available)


def _in_words(state: ConditionState) -> str:
    verdict = "failed: " if state.status == FALSE else ""
    return f"simulated: {verdict}{state.reason}: {state.message}"


def _what(instance: compute.Instance) -> str:
    sandbox = instance.spec.runtime.sandbox
    if sandbox is None:
        return "a virtual machine"
    return ", ".join(container.image for container in sandbox.containers)
