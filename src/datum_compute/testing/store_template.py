"""Boots a platform once, and starts every seed from a copy of its store.

A freshly booted platform does not depend on the seed. So it is booted once into a file and
stopped, and each run starts with a copy of that file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from datum_compute.apiserver.storage.sqlite import head_file

MEMORY = Path("/dev/shm")


def find_memory_directory() -> Path | None:
    """A directory in memory, where this system has one: commits there do not wait for a disk."""
    return MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None


class StoreTemplate:
    """A store that is booted on first use."""

    def __init__(self, path: Path, boot: Callable[[Path], None]) -> None:
        """``boot`` fills the store at the path it is given, and has closed it on return."""
        self._path = path
        self._boot = boot

    def copy_to(self, path: Path) -> Path:
        if not self._path.exists():
            unfinished = self._path.with_suffix(".booting")
            self._boot(unfinished)
            _head_of(unfinished).replace(_head_of(self._path))
            unfinished.replace(self._path)
        shutil.copyfile(_head_of(self._path), _head_of(path))
        return Path(shutil.copyfile(self._path, path))


def _head_of(path: Path) -> Path:
    """The file beside the database that says how many commits were acknowledged."""
    return path.with_name(path.name + head_file.SUFFIX)
