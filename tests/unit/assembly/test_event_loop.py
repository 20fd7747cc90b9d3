"""What a long-running program sets up before it runs."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource
from datum_compute.assembly import event_loop

async def main():
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512))
event_loop.run(main())
"""


def test_a_program_may_open_as_many_files_as_the_system_lets_it() -> None:
    command = [sys.executable, "-c", PROGRAM]

    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert ended.stdout.strip() == "512"
