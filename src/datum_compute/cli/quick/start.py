"""How the program starts and ends.

Ctrl-C during the imports is as quiet as later. A short command exits right after its work:
an orderly shutdown of the interpreter takes longer than some of them.

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
TIDYING = frozenset({"asyncio", "concurrent.futures", "logging", "multiprocessing", "threading"})
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
    if not TIDYING.isdisjoint(sys.modules):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # the interpreter reports that
        return
    os._exit(code)
