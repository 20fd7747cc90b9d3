"""The logs of simulated Instances: what the provider did with each.

A line is added when the reported state of an Instance changes, with the wall clock's time. The
last ones of each Instance are kept in memory until it is removed; after a restart of the
provider the first line of a running Instance notes that earlier ones are lost.
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

RESTARTED = "simulated: still running; the platform was restarted, earlier lines are lost"
STOPPED = "simulated: stopped"


class _InstanceLog:
    """The lines of one Instance."""

    __slots__ = ("dropped", "ended", "kept", "readers", "state")

    def __init__(self) -> None:
        self.kept: list[LogLine] = []
        self.dropped = 0
        """The number of earlier lines that were dropped."""
        self.ended = False
        self.state: ConditionState | None = None
        """The last reported ``Available``."""
        self.readers: dict[asyncio.Future[None], None] = {}
        """Readers that wait for the next line."""

    def wake(self) -> None:
        for reader in self.readers:
            if not reader.done():
                reader.set_result(None)


class InstanceLogs:
    """The lines of all Instances of one provider, by uid."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._logs: dict[str, _InstanceLog] = {}

    @property
    def uids(self) -> list[str]:
        """The Instances with lines, or with a reader."""
        return sorted(self._logs)

    def record_report(self, instance: compute.Instance, report: InstanceReport) -> None:
        """Adds a line where the state has changed."""
        log = self._log_of(instance.metadata.uid)
        if log.state != report.available:
            log.state = report.available
            self._add(log, _report_line(instance, report.available))

    def record_refusal(self, uid: str, reason: str, message: str) -> None:
        """The Instance does not run, for this reason."""
        log = self._log_of(uid)
        state = protocol.failed(reason, message)
        if log.state != state:
            log.state = state
            self._add(log, _failure_line(state))

    def record_data(self, uid: str, used: str) -> None:
        """What of ConfigMaps and Secrets the Instance is given, by name and key."""
        self._add(self._log_of(uid), f"simulated: mounts {used}")

    def record_restart(self, uid: str) -> None:
        log = self._log_of(uid)
        log.state = protocol.AVAILABLE
        self._add(log, RESTARTED)

    def record_stop(self, uid: str) -> None:
        log = self._log_of(uid)
        if log.state != protocol.SUSPENDED:
            log.state = protocol.SUSPENDED
            self._add(log, STOPPED)

    def record_removal(self, uid: str) -> None:
        """Drops its lines; readers that follow get the last one."""
        log = self._logs.pop(uid, None)
        if log is not None:
            log.ended = True
            self._add(log, STOPPED)

    async def lines(
        self, uid: str, *, tail: int | None, since: datetime | None, follow: bool
    ) -> AsyncIterator[LogLine]:
        log = self._log_of(uid) if follow else self._logs.get(uid)
        if log is None:
            return
        seen = log.dropped + len(log.kept)
        try:
            for line in _select(log.kept, tail, since):
                yield line
            while follow:
                missed = log.kept[max(0, seen - log.dropped) :]
                seen = log.dropped + len(log.kept)
                for line in missed:
                    yield line
                if not missed:
                    if log.ended:
                        return
                    await _next_line(log)
        finally:
            # Nothing is kept for an Instance that was followed and never started.
            if not log.kept and not log.readers and self._logs.get(uid) is log:
                del self._logs[uid]

    def _log_of(self, uid: str) -> _InstanceLog:
        log = self._logs.get(uid)
        if log is None:
            log = self._logs[uid] = _InstanceLog()
        return log

    def _add(self, log: _InstanceLog, text: str) -> None:
        log.kept.append(LogLine(self._env.now(), text))
        surplus = len(log.kept) - KEPT
        if surplus > 0:
            del log.kept[:surplus]
            log.dropped += surplus
        log.wake()


async def _next_line(log: _InstanceLog) -> None:
    reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    log.readers[reader] = None
    try:
        await reader
    finally:
        del log.readers[reader]


def _select(kept: list[LogLine], tail: int | None, since: datetime | None) -> list[LogLine]:
    found = [line for line in kept if since is None or line.at >= since]
    return found if tail is None else found[max(0, len(found) - tail) :]


def _report_line(instance: compute.Instance, available: ConditionState) -> str:
    if available == protocol.PROVISIONING:
        return f"simulated: starting {_what(instance)}"
    if available == protocol.AVAILABLE:
        return f"simulated: started {_what(instance)} (no container runs)"
    return _failure_line(available)


def _failure_line(state: ConditionState) -> str:
    verdict = "failed: " if state.status == FALSE else ""
    return f"simulated: {verdict}{state.reason}: {state.message}"


def _what(instance: compute.Instance) -> str:
    sandbox = instance.spec.runtime.sandbox
    if sandbox is None:
        return "a virtual machine"
    return ", ".join(container.image for container in sandbox.containers)
