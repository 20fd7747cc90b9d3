"""How the program starts and ends.

Ctrl-C during the imports prints no stack trace. A short command exits right after its work:
shutting the interpreter down takes longer than some commands.

Imports nothing that the interpreter has not loaded already.
"""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130
YOUNG_OBJECTS = 100_000
"""Allocations before the garbage collector runs. Imports make some ten thousand, none of them
garbage; long-running processes set other thresholds."""
EXIT_HANDLERS = frozenset(
    {"asyncio", "concurrent.futures", "logging", "multiprocessing", "threading"}
)
"""Modules that may have work left at exit."""


def run() -> int:
    """The console script."""
    gc.set_threshold(YOUNG_OBJECTS)
    try:
        from datum_compute.cli import main

        code = main.run()
    except KeyboardInterrupt:
        os.write(2, b"Interrupted.\n")
        return INTERRUPTED
    except SystemExit as ended:  # argparse, after help
        if not isinstance(ended.code, int):
            raise
        code = ended.code
    leave(code)
    return code


def leave(code: int) -> None:
    """Exit at once, if nothing loaded has work left."""
    if not EXIT_HANDLERS.isdisjoint(sys.modules):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # the interpreter reports that
        return
    os._exit(code)
