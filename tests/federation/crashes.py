"""A manager that dies right after one of its writes, and what the world looks like in the end.

A :class:`Scenario` is something that happened before and something a person does now. It is
told over and over, each time from a copy of the same store, and each time with one more
write of our managers before the one that made it is killed. Between two writes a manager
changes nothing outside itself, so this is a crash between any two of them.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from datum_compute.client import errors
from datum_compute.client.transport import Request, Response, Transport
from datum_compute.platform.apiserver.storage import Store
from datum_compute.testing import loop
from datum_compute.testing.boot import Template
from datum_compute.testing.environment import START, SimulatedEnvironment
from tests.e2e.witness import Witness
from tests.federation.stage import Stage, stage

Act = Callable[[Stage], Awaitable[None]]

DOWN_SECONDS = 1.0
SETTLED_AFTER = 180.0
"""Seconds after which the undisturbed world has long come to rest."""


async def nothing(on: Stage) -> None:
    """Nothing happened before."""


@dataclass(frozen=True)
class Scenario:
    act: Act
    before: Act = nothing
    instances: int = 100
    """How many the project may have."""

    @property
    def name(self) -> str:
        return self.act.__name__


@dataclass
class Killer:
    """Counts the writes of our managers, and kills whoever makes the fatal one."""

    fatal: int
    """0 for none."""
    armed: bool = False
    writes: int = 0
    victim: str = ""
    last: str = ""
    on: Stage | None = field(default=None, repr=False)

    def wrap(self, transport: Transport, process: str, plane: str) -> Transport:
        ours = process.startswith("compute-")
        return _Watched(self, transport, process, plane) if ours else transport

    def written(self, process: str, plane: str, request: Request) -> None:
        if not self.armed:
            return
        self.writes += 1
        if self.writes == self.fatal and self.on is not None:
            self.victim, self.last = process, f"{request.method} {request.path} on {plane}"
            self.on.parts[process].process.crash(DOWN_SECONDS)
            raise errors.Disconnected("the process is dead")


class _Watched:
    def __init__(self, killer: Killer, inner: Transport, process: str, plane: str) -> None:
        self._killer = killer
        self._inner = inner
        self._process = process
        self._plane = plane

    async def send(self, request: Request, *, timeout: float | None = None) -> Response:
        response = await self._inner.send(request, timeout=timeout)
        if request.method != "GET" and response.status < 300 and "/events" not in request.path:
            self._killer.written(self._process, self._plane, request)
        return response

    async def close(self) -> None:
        await self._inner.close()


class Teller:
    """Tells one scenario, whole or with a crash."""

    def __init__(self, scenario: Scenario, directory: Path) -> None:
        self._scenario = scenario
        self._directory = directory
        self._template = Template(directory / "before.db", self._boot)
        self._told = 0
        self._witness = Witness()

    def tell(self, fatal: int) -> tuple[Killer, dict[str, Any]]:
        """How it went, and everything there is in the end."""
        self._told += 1
        path = self._template.copy_to(self._directory / f"{self._told}.db")
        killer = Killer(fatal)
        found = loop.run(self._tell(path, killer), seed=1)
        path.unlink()
        return killer, found

    def _boot(self, path: Path) -> None:
        loop.run(self._prepare(path))

    async def _prepare(self, path: Path) -> None:
        grant = {"instances": self._scenario.instances}
        async with stage(path, grant=grant, witness=self._witness) as on:
            await self._scenario.before(on)
            await asyncio.sleep(SETTLED_AFTER)

    async def _tell(self, path: Path, killer: Killer) -> dict[str, Any]:
        env = SimulatedEnvironment(7, START + timedelta(hours=1))
        grant = {"instances": self._scenario.instances}
        witness = _heir(self._witness)
        async with stage(path, grant=grant, wrap=killer.wrap, env=env, witness=witness) as on:
            killer.on = on
            await asyncio.sleep(5)
            killer.armed = True
            await self._scenario.act(on)
            await asyncio.sleep(SETTLED_AFTER)
            assert witness.broken == [], f"{killer}: {witness.broken}"
            return snapshot(on.platform.store)


def _heir(witness: Witness) -> Witness:
    """One who knows all that this one has seen."""
    known = {
        each.name: copy.deepcopy(getattr(witness, each.name))
        for each in fields(Witness)
        if each.name not in ("_trace", "_pending")
    }
    return Witness(**known)


# What there is, apart from events, times, uids and revisions.

_DROPPED = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "observedGeneration",
        "creationTimestamp",
        "lastTransitionTime",
        "lastReconciliation",
        "managedFields",
        "lastScheduledTime",
    }
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
_SKIPPED = ("events", "leases.coordination.k8s.io", "clusters.cluster.karmada.io")


def snapshot(store: Store) -> dict[str, Any]:
    """Every object by plane, kind and name. A uid stands for the name of what it belongs to,
    and an address, which goes to whoever asks first, for any."""
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    for plane_name, plane in sorted(store.planes.items()):
        for resource, table in sorted(plane.tables.items()):
            if resource in _SKIPPED:
                continue
            for stored in table.in_order(None):
                key = f"{plane_name} {resource} {stored.namespace}/{stored.name}"
                found[key] = json.loads(stored.raw)
                names[stored.uid] = f"<uid of {resource} {stored.name}>"
    return {key: _plain(obj, names) for key, obj in found.items()}


def _plain(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        kept = {k: _plain(v, names) for k, v in value.items() if k not in _DROPPED}
        return {key: each for key, each in kept.items() if each is not None}
    if isinstance(value, list):
        items = [_plain(each, names) for each in value]
        typed = all(isinstance(each, dict) and "type" in each for each in items)
        return sorted(items, key=lambda each: str(each["type"])) if typed else items
    if isinstance(value, str):
        value = names.get(value, value)
        for pattern, word in ((_TIME, "<time>"), (_UID, "<uid>"), (_ADDRESS, "<address>")):
            value = pattern.sub(word, value)
    return value
