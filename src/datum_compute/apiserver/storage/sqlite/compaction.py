"""Keeps the file small: checkpoints, and the compaction of history.

History goes when it is too old, and sooner when it is too large.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

import apsw

from datum_compute.apiserver.storage.protocol import (
    HISTORY_BYTES,
    HISTORY_SECONDS,
    RECENT_SECONDS,
    SMALL_HISTORY_BYTES,
    StoreFull,
)
from datum_compute.apiserver.storage.sqlite.log_file import LogFile
from datum_compute.apiserver.storage.sqlite.plane import (
    COMPACTION_BYTES,
    CompactionStep,
    LogPlane,
    StoreSizes,
)
from datum_compute.apiserver.storage.sqlite.transactions import Transactions
from datum_compute.env import Environment

VACUUM_PAGES = 512
"""Free pages taken out of the file per transaction. A guess."""


class Compaction:
    """That of one store."""

    def __init__(
        self,
        env: Environment,
        file: LogFile,
        transactions: Transactions,
        planes: Mapping[str, LogPlane],
        sizes: StoreSizes,
    ) -> None:
        self.garbage: deque[int] = deque()
        """Rows on the file of planes that were dropped."""
        self._env = env
        self._file = file
        self._transactions = transactions
        self._planes = planes
        self._sizes = sizes
        self._relief: asyncio.Handle | None = None

    def begin_soon(self) -> None:
        """Relieve the file in one of the next turns of the loop, if that is due."""
        is_due = self._file.needs_checkpoint or self._sizes.history_bytes > HISTORY_BYTES
        if is_due and self._relief is None:
            self._relief = asyncio.get_running_loop().call_soon(self._relieve, 1)

    def _relieve(self, turns: int) -> None:
        """A checkpoint, or a step of a compaction that cannot wait as the disk may be filling. Each
        in a turn of its own: the next one resumes the requests that waited for the commit, and
        sends their responses at its end."""
        if turns:
            self._relief = asyncio.get_running_loop().call_soon(self._relieve, turns - 1)
            return
        self._relief = None
        if not self._transactions.is_open:
            return
        if self._file.needs_checkpoint:
            self._file.checkpoint()
        else:
            with suppress(StoreFull):
                self.step()
        self.begin_soon()

    def step(self) -> bool:
        """Remove what one transaction may remove, and whether there is more."""
        step = CompactionStep()
        self._drop_history(step)
        while self.garbage and step.has_room():
            step.rows.append(self.garbage.popleft())
        free = self._file.free_pages()
        if not step.rows and not step.planes and not free:
            return False

        def remove() -> None:
            self._file.delete(step.rows)
            self._file.put_planes(step.planes.values())
            self._file.shrink(min(self._file.free_pages(), VACUUM_PAGES))

        self._transactions.run_surely("compaction", remove)
        if not step.has_room() or self._file.free_pages():
            return True
        with suppress(apsw.FullError):
            self._file.truncate_wal()
        return False

    def _drop_history(self, step: CompactionStep) -> None:
        """All that is too old; then, of the planes with the most history, what is not recent
        while it outweighs the current objects, and whatever its age what is too much."""
        now = int(self._env.now().timestamp() * 1000)
        for plane in self._planes.values():
            plane.compact(now - HISTORY_SECONDS * 1000, step, COMPACTION_BYTES)
        small = max(SMALL_HISTORY_BYTES, self._sizes.live_bytes)
        much = HISTORY_BYTES
        if self._sizes.history_bytes > HISTORY_BYTES:
            # More than the excess, so that not every write is followed by a compaction.
            much = HISTORY_BYTES * 7 // 8
        for until, allowed in ((now - RECENT_SECONDS * 1000, small), (now, much)):
            for plane in sorted(self._planes.values(), key=lambda each: -each.history_bytes):
                if (excess := self._sizes.history_bytes - allowed) <= 0:
                    break
                plane.compact(until, step, excess)

    def close(self) -> None:
        if self._relief is not None:
            self._relief.cancel()
