"""Worker processes that count their tasks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.apiserver.worker.records import Outcome


class CountingWorker(WorkerProcess):
    completed = 0
    """Tasks that the process has answered."""

    async def run(self, user: str, message: bytes, is_wanted: Callable[[], bool]) -> Outcome:
        outcome = await super().run(user, message, is_wanted)
        self.completed += 1
        return outcome


def worker_pid() -> int:
    """Of the worker process that this process has started, zombies left out."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = (line.partition(":") for line in status.read_text().splitlines())
            fields = {key: value.strip() for key, _, value in lines}
            command = (status.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue  # it has ended
        if int(fields["PPid"]) == os.getpid() and b"datum_compute.apiserver.worker" in command:
            return int(status.parent.name)
    raise LookupError("no worker process")
