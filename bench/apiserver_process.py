"""The server under measurement, in a process of its own.

Says where it listens in one line of JSON on standard output, and ends when its standard
input does: so it never outlives the one who started it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path

import uvloop

from datum_compute.assembly.local.process import GC_THRESHOLDS
from datum_compute.env import SystemEnvironment
from datum_compute.testing.server import embedded_server


async def serve(directory: Path) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    async with (
        embedded_server(
            SystemEnvironment(), directory / "state.db", cells=(), projects=()
        ) as embedded,
        embedded.serve_https() as served,
    ):
        told = {
            "base_url": served.base_url,
            "ca_pem": served.ca_pem.decode(),
            "token": served.token,
        }
        print(json.dumps(told), flush=True)
        gc.freeze()
        await ended.wait()


if __name__ == "__main__":
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))
