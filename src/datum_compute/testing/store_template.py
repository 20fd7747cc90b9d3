"""Boot once, and start every seed from a copy.

What a platform looks like when it has just come up does not depend on the seed. So it is
booted one time into a file, stopped, and each run begins with a copy of that file: a fraction
of the work, and the same beginning for all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

MEMORY = Path("/dev/shm")


def find_memory_directory() -> Path | None:
    """A directory in memory, where this system has one: a commit there waits for no disk, and
    what a simulated run leaves behind needs none."""
    return MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None


class StoreTemplate:
    """A store that was booted when it was first asked for."""

    def __init__(self, path: Path, boot: Callable[[Path], None]) -> None:
        """``boot`` fills the store at the path it is given, and has closed it on return."""
        self._path = path
        self._boot = boot

    def copy_to(self, path: Path) -> Path:
        if not self._path.exists():
            unfinished = self._path.with_suffix(".booting")
            self._boot(unfinished)
            unfinished.replace(self._path)
        return Path(shutil.copyfile(self._path, path))
