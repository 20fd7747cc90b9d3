"""The server under measurement, in a process of its own.

Prints its address as one line of JSON on standard output, and ends with its standard input: so
it never outlives the process that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from datum_compute.apiserver.worker.process import WorkerProcess
from datum_compute.assembly.event_loop import GC_THRESHOLDS, trim_regularly
from datum_compute.env import SystemEnvironment
from datum_compute.testing.server import embedded_server


async def serve(directory: Path, cells: Sequence[str]) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    async with (
        embedded_server(
            SystemEnvironment(),
            directory / "state.db",
            cells=cells,
            projects=(),
            worker=WorkerProcess(),
        ) as embedded,
        embedded.serve_https() as served,
    ):
        settings = {
            "base_url": served.base_url,
            "ca_pem": served.ca_pem.decode(),
            "token": served.token,
        }
        print(json.dumps(settings), flush=True)
        gc.freeze()
        await ended.wait()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.apiserver_process")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--cells", default="", help="planes of cells to have, by comma")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    args = parse(sys.argv[1:])
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        trim_regularly(runner.get_loop())
        runner.run(serve(args.directory, [cell for cell in args.cells.split(",") if cell]))
