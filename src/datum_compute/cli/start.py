"""The first moment of the program: Ctrl-C while it still loads is as quiet as any later.

Nothing is imported here but what the interpreter has loaded anyway.
"""

from __future__ import annotations

import os

INTERRUPTED = 130


def run() -> int:
    """The console script."""
    try:
        from datum_compute.cli import main

        return main.run()
    except KeyboardInterrupt:
        os.write(2, b"Interrupted.\n")
        return INTERRUPTED
