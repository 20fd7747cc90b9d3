"""A process that crashes right after one of its writes, and the state that the planes end in.

A :class:`Scenario` is a state before and an operation now. It runs many times, each time on a
copy of the same store with a :class:`Crash` at another place. Between two writes a process
changes nothing outside itself, so a crash after each of its writes covers every crash between
two of them:

*   a write is carried out and its author crashes before the response: the effect is there and
    no memory of it, the worst that a crash can leave behind;
*   a write is never sent: the planes are as after the author's previous write, only later. A
    sample of these runs, with other times until the restart;
*   all processes crash at once with the store they share, between two commits or before one.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.storage.protocol import Store
from datum_compute.client import errors
from datum_compute.client.transport import Handler, HttpRequest, HttpResponse, Transport
from datum_compute.testing import loop
from datum_compute.testing.environment import START, SimulatedEnvironment
from datum_compute.testing.loop import VirtualLoop
from datum_compute.testing.store_template import StoreTemplate
from tests.support.client.intercepted_transport import InterceptedTransport, Rule, is_write
from tests.support.federation.stage import FEDERATED, ManagerMode, Stage, stage
from tests.support.simulation.commit_checker import CommitChecker
from tests.support.simulation.platform import PowerCut

ScenarioStep = Callable[[Stage], Awaitable[None]]

DOWN_SECONDS = 1.0
SETTLED_AFTER = 180.0
"""Seconds after which everything has settled without a crash."""


async def nothing(on: Stage) -> None:
    """No preparation."""


@dataclass(frozen=True)
class Scenario:
    act: ScenarioStep
    """The operation; may be repeated after an interruption."""
    before: ScenarioStep = nothing
    instances: int = 100
    """The project's limit of Instances."""
    mode: ManagerMode = FEDERATED
    keeps_quota: bool = True
    """False where claims or grants are removed: running Instances may then exceed the limit."""

    @property
    def name(self) -> str:
        return self.act.__name__


@dataclass(frozen=True)
class Crash:
    write: int = 0
    """The number of the write whose process crashes, over all processes; 0 for none."""
    sent: bool = True
    """Whether the write is carried out, without a reply."""
    again: int = 0
    """How many writes after the first crash another process crashes; 0 for none."""
    down: float = DOWN_SECONDS
    """Seconds until a crashed process restarts."""


UNDISTURBED = Crash()


@dataclass
class ProcessKiller:
    """Counts the writes of all processes, and crashes the one that makes the chosen write."""

    crash: Crash
    counts: Callable[[HttpRequest], bool] = lambda request: core.LEASES.plural not in request.path
    """Which writes count."""
    armed: bool = False
    writes: int = 0
    victims: list[str] = field(default_factory=list)
    """The crashed processes, each with its write."""
    writers: set[str] = field(default_factory=set)
    """The processes that wrote anything."""
    on: Stage | None = field(default=None, repr=False)

    def wrap(self, transport: Transport, process: str, plane: str) -> Transport:
        async def carry(request: HttpRequest, forward: Handler) -> HttpResponse:
            if not self.crash.sent and self.is_fatal(process):
                self.kill(process, plane, request)
            response = await forward(request)
            if self.crash.sent and response.status < 300 and self.is_fatal(process):
                self.kill(process, plane, request)
            return response

        def is_counted(request: HttpRequest) -> bool:
            return is_write(request) and self.counts(request)

        return InterceptedTransport(transport, [Rule(carry, is_counted)])

    @property
    def present(self) -> list[str]:
        """All processes."""
        return sorted(self.on.parts) if self.on is not None else []

    def is_fatal(self, process: str) -> bool:
        """Whether the next write crashes its process."""
        if not self.armed:
            return False
        self.writes += 1
        self.writers.add(process)
        crash = self.crash
        return self.writes == crash.write or bool(
            crash.again and self.writes == crash.write + crash.again
        )

    def kill(self, process: str, plane: str, request: HttpRequest) -> None:
        assert self.on is not None
        self.victims.append(f"{process}: {request.method} {request.path} on {plane}")
        self.on.parts[process].process.crash(self.crash.down)
        raise errors.Disconnected("the process has crashed")


@dataclass
class PowerCutPoint:
    """A power cut at one commit, for all processes."""

    commit: int = 0
    """0 for none."""
    stored: bool = True
    """Whether that commit is stored, without a reply."""
    armed: bool = False
    commits: int = 0
    on: Stage | None = field(default=None, repr=False)

    @property
    def point(self) -> str:
        return "store.after-commit" if self.stored else "store.before-commit"

    def passed(self) -> None:
        if self.armed:
            self.commits += 1
            if self.commits == self.commit:
                raise PowerCut

    def discard_tasks(self) -> None:
        """Free what the processes held, without the warnings of their unfinished coroutines."""
        assert self.on is not None
        self.on.platform.abandon()
        self.on = None
        complain = sys.unraisablehook
        sys.unraisablehook = lambda _: None
        try:
            gc.collect()
        finally:
            sys.unraisablehook = complain


class ScenarioRunner:
    """Runs one scenario, with or without a crash."""

    def __init__(self, scenario: Scenario, directory: Path) -> None:
        self._scenario = scenario
        self._directory = directory
        self._template = StoreTemplate(directory / "before.db", self._boot)
        self._copies = 0
        self._commit_checker = CommitChecker()
        self._grant = {"instances": scenario.instances}

    def run(self, crash: Crash = UNDISTURBED) -> tuple[ProcessKiller, dict[str, Any]]:
        """The killer, and all objects at the end."""
        path = self._copy()
        killer = ProcessKiller(crash)
        found = loop.run(self._run_scenario(path, killer), seed=1)
        path.unlink()
        return killer, found

    def written_at_rest(self, seconds: float) -> list[str]:
        """What is written within this time after the scenario has settled without a crash."""
        path = self._copy()
        written = loop.run(self._rest(path, seconds), seed=1)
        path.unlink()
        return written

    def count_commits(self) -> int:
        path, cut = self._copy(), PowerCutPoint()
        loop.run(self._run_until_cut(path, cut, self._copy_commit_checker(), []), seed=1)
        path.unlink()
        return cut.commits

    def run_with_power_cut(self, commit: int, *, stored: bool) -> dict[str, Any]:
        """All objects at the end, after a power cut and a restart of all processes."""
        path, cut, done = self._copy(), PowerCutPoint(commit, stored), list[str]()
        commit_checker = self._copy_commit_checker()
        assert not _completes(self._run_until_cut(path, cut, commit_checker, done)), (
            "the power never went"
        )
        commit_checker.begin()
        cut.discard_tasks()
        found = loop.run(
            self._run_until_cut(path, PowerCutPoint(), commit_checker, done, run=2), seed=2
        )
        path.unlink()
        return found

    def _copy(self) -> Path:
        self._copies += 1
        return self._template.copy_to(self._directory / f"{self._copies}.db")

    def _boot(self, path: Path) -> None:
        loop.run(self._prepare(path))

    async def _prepare(self, path: Path) -> None:
        mode = self._scenario.mode
        async with stage(
            path, grant=self._grant, commit_checker=self._commit_checker, mode=mode
        ) as on:
            await self._scenario.before(on)
            await asyncio.sleep(SETTLED_AFTER)

    async def _run_scenario(self, path: Path, killer: ProcessKiller) -> dict[str, Any]:
        env = SimulatedEnvironment(7, START + timedelta(hours=1))
        commit_checker, scenario = self._copy_commit_checker(), self._scenario
        async with stage(
            path,
            grant=self._grant,
            wrap=killer.wrap,
            env=env,
            commit_checker=commit_checker,
            mode=scenario.mode,
        ) as on:
            killer.on = on
            await asyncio.sleep(5)
            killer.armed = True
            await scenario.act(on)
            await asyncio.sleep(SETTLED_AFTER)
            assert commit_checker.broken == [], f"{killer}: {commit_checker.broken}"
            return snapshot(on.platform.store)

    async def _rest(self, path: Path, seconds: float) -> list[str]:
        env = SimulatedEnvironment(7, START + timedelta(hours=1))
        commit_checker, scenario = self._copy_commit_checker(), self._scenario
        async with stage(
            path, grant=self._grant, env=env, commit_checker=commit_checker, mode=scenario.mode
        ) as on:
            await scenario.act(on)
            return await on.written_in(seconds)

    async def _run_until_cut(
        self,
        path: Path,
        cut: PowerCutPoint,
        commit_checker: CommitChecker,
        done: list[str],
        *,
        run: int = 1,
    ) -> dict[str, Any]:
        env = SimulatedEnvironment(6 + run, START + timedelta(hours=run))
        scenario = self._scenario
        async with stage(
            path, grant=self._grant, env=env, commit_checker=commit_checker, mode=scenario.mode
        ) as on:
            cut.on = on
            env.on_fault(
                cut.point, cut.passed
            )  # after the commit checker, which sees what is stored
            await asyncio.sleep(5)
            cut.armed = True
            if not done:
                await scenario.act(on)
                done.append(scenario.name)
            await asyncio.sleep(SETTLED_AFTER)
            assert commit_checker.broken == [], f"{cut}: {commit_checker.broken}"
            return snapshot(on.platform.store)

    def _copy_commit_checker(self) -> CommitChecker:
        """A copy of the checker of the preparation, with all its state."""
        known = {
            each.name: copy.deepcopy(getattr(self._commit_checker, each.name))
            for each in fields(CommitChecker)
            if each.name not in ("_trace", "_pending", "quota_is_kept", "grants_are_kept")
        }
        kept = self._scenario.keeps_quota
        return CommitChecker(**known, quota_is_kept=kept, grants_are_kept=kept)


def _completes(run: Coroutine[Any, Any, object]) -> bool:
    """Whether it ended. After a power cut nothing of it runs any more: no task is cancelled and
    no ``finally`` is reached, as after ``kill -9``."""
    events = VirtualLoop(1)
    try:
        events.run_until_complete(run)
    except PowerCut:
        return False
    else:
        return True
    finally:
        asyncio.set_event_loop(None)
        events.close()


# All objects, without Events, times, uids and revisions.

_DROPPED = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "observedGeneration",
        "schedulerObservedGeneration",
        "creationTimestamp",
        "lastTransitionTime",
        "lastReconciliation",
        "managedFields",
        "lastScheduledTime",
        # Written when Karmada was down for longer than the federator waits for it.
        compute.ANNOTATION_PROPAGATION_REQUESTED,
        # Keyed with uids, which differ between runs.
        compute.ANNOTATION_DELIVERED_DATA,
    }
)
_DROPPED_FROM_LISTS = f"{compute.ANNOTATION_PROPAGATION_REQUESTED},"
"""Karmada lists the annotations of a template in one of its own."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
_SKIPPED = (
    "events",
    "leases.coordination.k8s.io",
    "clusters.cluster.karmada.io",
    # Written at the start only.
    "customresourcedefinitions.apiextensions.k8s.io",
)


def snapshot(store: Store) -> dict[str, Any]:
    """Every object by plane, kind and name. A uid is replaced by the name of its object, and an
    address, which depends on the order of requests, by a constant."""
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    for plane_name, plane in sorted(store.planes.items()):
        for table in plane.all_tables():
            resource = table.resource
            if resource in _SKIPPED:
                continue
            for stored in table.in_order(None):
                key = f"{plane_name} {resource} {stored.namespace}/{stored.name}"
                found[key] = json.loads(stored.raw)
                names[stored.uid] = f"<uid of {resource} {stored.name}>"
    return {key: plain(obj, names) for key, obj in found.items()}


def plain(value: Any, names: dict[str, str]) -> Any:
    """The same without what differs between runs; ``names`` replace uids."""
    if isinstance(value, dict):
        kept = {k: plain(v, names) for k, v in value.items() if k not in _DROPPED}
        if isinstance(kept.get("finalizers"), list):  # their order depends on who added them first
            kept["finalizers"].sort()
        return {key: each for key, each in kept.items() if each is not None}
    if isinstance(value, list):
        items = [plain(each, names) for each in value]
        typed = all(isinstance(each, dict) and "type" in each for each in items)
        return sorted(items, key=lambda each: str(each["type"])) if typed else items
    if isinstance(value, str):
        value = names.get(value, value).replace(_DROPPED_FROM_LISTS, "")
        for pattern, word in ((_TIME, "<time>"), (_UID, "<uid>"), (_ADDRESS, "<address>")):
            value = pattern.sub(word, value)
    return value
