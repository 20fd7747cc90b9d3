"""What SQLite does to a disk: recorded below it, and replayed up to a power cut.

A disk keeps what was written before the last sync of a file. Of what was written after it, a power
cut leaves any part, in sectors and in any order of the files.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

SECTOR = 512
NAME = "recorded"


class Operation(NamedTuple):
    """``data`` of a write, none of a truncation to ``offset``; a sync has neither."""

    file: str
    kind: str
    offset: int = 0
    data: bytes = b""


class RecordedDisk(apsw.VFS):
    """The default of SQLite from its creation to its end; ``room`` is how many bytes can still be
    written."""

    def __init__(self) -> None:
        self.base = apsw.vfs_names()[0]
        super().__init__(NAME, self.base, makedefault=True)
        self.operations: list[Operation] = []
        self.room = 1 << 40

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _RecordedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.operations.append(Operation(Path(filename).name, "delete"))
        super().xDelete(filename, syncdir)


class _RecordedFile(apsw.VFSFile):
    def __init__(
        self, disk: RecordedDisk, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._disk = disk
        self._name = Path(path).name
        super().__init__(disk.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if len(data) > self._disk.room:
            raise apsw.FullError
        self._disk.room -= len(data)
        self._disk.operations.append(Operation(self._name, "write", offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.operations.append(Operation(self._name, "truncate", newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.operations.append(Operation(self._name, "sync"))


@contextmanager
def recorded_disk() -> Iterator[RecordedDisk]:
    def exclusive(connection: apsw.Connection) -> None:
        # A file system in Python shares no memory, which SQLite needs for several processes.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")

    disk = RecordedDisk()
    apsw.connection_hooks.append(exclusive)
    try:
        yield disk
    finally:
        apsw.connection_hooks.remove(exclusive)
        disk.unregister()


def replay(operations: list[Operation], chance: random.Random) -> dict[str, bytearray]:
    """The files that a power cut after these operations leaves."""
    last = {each.file: at for at, each in enumerate(operations) if each.kind == "sync"}
    share = chance.choice((0.0, 0.5, 0.9, 1.0))
    files: dict[str, bytearray] = {}
    for at, each in enumerate(operations):
        # SQLite syncs the directory when it deletes a file.
        is_durable = each.kind == "delete" or at <= last.get(each.file, -1)
        if is_durable or chance.random() < share:
            _apply(files, each)
        elif each.kind == "write" and chance.random() < share:
            for start in range(0, len(each.data), SECTOR):
                if chance.random() < 0.5:
                    part = each.data[start : start + SECTOR]
                    _apply(files, each._replace(offset=each.offset + start, data=part))
    return files


def _apply(files: dict[str, bytearray], operation: Operation) -> None:
    if operation.kind == "delete":
        files.pop(operation.file, None)
        return
    content = files.setdefault(operation.file, bytearray())
    if operation.kind == "truncate":
        del content[operation.offset :]
        content.extend(bytes(operation.offset - len(content)))
    elif operation.kind == "write":
        end = operation.offset + len(operation.data)
        content.extend(bytes(max(0, end - len(content))))
        content[operation.offset : end] = operation.data
