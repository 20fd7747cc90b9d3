"""The first moment of the program, and the last.

Ctrl-C while it still loads is as quiet as any later. A short command ends where its work does:
taking an interpreter apart in good order takes longer than some of them.

Nothing is imported here but what the interpreter has loaded anyway.
"""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130
YOUNG_OBJECTS = 100_000
"""How many may be made before garbage is looked for. Loading makes some ten thousand, and none
of them is garbage; who runs for long sets other limits."""
TIDYING = frozenset({"asyncio", "concurrent.futures", "logging", "multiprocessing", "threading"})
"""Modules that leave something to be done at the end, or may."""


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
    """End the process here and now, if nothing is left to do in it."""
    if not TIDYING.isdisjoint(sys.modules):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # the interpreter knows what to say of that
        return
    os._exit(code)
