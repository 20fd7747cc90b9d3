"""What a long-running program sets up before it runs."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import subprocess
import sys
import weakref

import pytest

from bench.memory import resident_bytes
from datum_compute.assembly.event_loop import TRIM_SECONDS, trim_regularly

PROGRAM = """
import resource
from datum_compute.assembly import event_loop

async def main():
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512))
event_loop.run(main())
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps what is freed"
)
async def test_memory_that_was_freed_in_pieces_is_given_back_within_a_minute() -> None:
    trim_regularly(asyncio.get_running_loop())
    held = [bytes(2_000) for _ in range(50_000)]
    kept = held[::100]
    held.clear()
    before = resident_bytes()

    await asyncio.sleep(TRIM_SECONDS + 1)

    assert before - resident_bytes() > 50_000_000
    assert len(kept) == 500


class Node:
    """Refers to itself, so only the garbage collector frees it."""

    def __init__(self) -> None:
        self.itself = self


async def test_long_lived_garbage_is_collected_within_a_minute() -> None:
    gc.collect()
    gc.freeze()  # the objects of other tests would be too many
    gc.disable()
    try:
        trim_regularly(asyncio.get_running_loop())
        node = Node()
        seen = weakref.ref(node)
        await asyncio.sleep(TRIM_SECONDS + 1)
        del node
        await asyncio.sleep(TRIM_SECONDS)
    finally:
        gc.enable()  # what is frozen stays so, as after the collection of the tests

    assert seen() is None


def test_a_program_may_open_as_many_files_as_the_system_lets_it() -> None:
    command = [sys.executable, "-c", PROGRAM]

    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert ended.stdout.strip() == "512"
