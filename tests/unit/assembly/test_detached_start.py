"""A detached platform that does not become ready."""

from __future__ import annotations

import subprocess
import sys

from datum_compute.assembly.local.process import end_child

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)"


def test_a_child_that_does_not_end_when_asked_is_killed() -> None:
    command = [sys.executable, "-c", f"{DEAF}; time.sleep(600)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it ignores SIGTERM from here on

        end_child(child, grace_seconds=0.0)

        assert child.returncode == -9
