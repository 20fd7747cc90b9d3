"""The events of a simulated run, as a digest and as readable lines.

Everything that two runs of one seed must agree on is recorded with its virtual time: requests,
replies, faults, crashes and commits. Two runs are the same if and only if their digests are equal;
where they differ, :attr:`Trace.lines` has the last events.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, deque
from typing import Any

from datum_compute.apiserver.storage.protocol import PlaneStore, Store, StoreEvent, Table
from datum_compute.testing.environment import SimulatedEnvironment

KEPT_LINES = 200


class Trace:
    def __init__(self, keep: int = KEPT_LINES) -> None:
        self.counts: Counter[str] = Counter()
        """The number of events by kind."""
        self.lines: deque[str] = deque(maxlen=keep)
        """The last ones, oldest first."""
        self._hash: Any = hashlib.sha256()

    def note(self, kind: str, *details: object) -> None:
        now = asyncio.get_running_loop().time()
        line = " ".join([f"{now:.6f}", kind, *map(str, details)])
        self.counts[kind] += 1
        self.lines.append(line)
        self._hash.update(line.encode() + b"\n")

    @property
    def digest(self) -> str:
        return str(self._hash.hexdigest())

    def follow_commits(self, store: Store, env: SimulatedEnvironment) -> None:
        """Record every change of the store once it is on disk, in the order of the log."""
        pending: list[str] = []

        def changed(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
            kind = "delete" if event.deleted else "update" if event.before else "create"
            after = event.after
            where = f"{plane.name} {table.resource} {after.namespace}/{after.name}"
            pending.append(f"{where} {kind} {event.revision}")

        def committed() -> None:
            for line in pending:
                self.note("commit", line)
            pending.clear()

        store.subscribe(changed)
        env.on_fault("store.after-commit", committed)
