"""The run of ten thousand Instances; prints its result as one line of JSON, and five minutes
later the remaining size as a second line."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import tempfile
import time
from pathlib import Path

import apsw
import uvloop

from bench.deployment import (
    all_available,
    deploy,
    platform_gc_thresholds,
    platform_with_large_quota,
)
from bench.memory import resident_bytes
from datum_compute.apiserver.server import COMPACTION_SECONDS
from datum_compute.apiserver.storage.protocol import HISTORY_SECONDS
from datum_compute.assembly.local.platform import ADMIN

CITIES = tuple(f"C{number:02d}" for number in range(50))
PER_CITY = 200
LIMIT_SECONDS = 1200.0
FORGOTTEN_SECONDS = HISTORY_SECONDS + 2 * COMPACTION_SECONDS


async def run(database: Path) -> None:
    async with platform_with_large_quota(database, CITIES) as platform:
        gc.freeze()
        project_client = platform.client(f"project/{platform.settings.project}", ADMIN)
        start, cpu_start = time.perf_counter(), time.process_time()
        async with asyncio.timeout(LIMIT_SECONDS):
            await deploy(project_client, "bench", CITIES, PER_CITY)
            await all_available(project_client, len(CITIES) * PER_CITY)
        how_it_went = {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu_start,
            "resident_bytes_at_once": resident_bytes(),
        }
        print(json.dumps(how_it_went), flush=True)
        await asyncio.sleep(FORGOTTEN_SECONDS)
        what_is_left = {
            "resident_bytes": resident_bytes(),
            "file_bytes": sum(file.stat().st_size for file in database.parent.iterdir()),
            "live_bytes": live_bytes(database),
        }
        print(json.dumps(what_is_left), flush=True)


def live_bytes(database: Path) -> int:
    """Size of the current objects: the last row of each, unless it is a deletion."""
    file = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    with contextlib.closing(file):
        last = (
            "SELECT type, LENGTH(value) AS size, MAX(seq) FROM log"
            " GROUP BY plane, resource, namespace, name"
        )
        sizes = file.execute(f"SELECT size FROM ({last}) WHERE type = 0")
        return sum(int(str(size)) for (size,) in sizes)


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory(prefix="datum-compute-bench-") as directory,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        platform_gc_thresholds(),
    ):
        runner.run(run(Path(directory, "state.db")))
