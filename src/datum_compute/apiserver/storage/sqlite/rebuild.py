"""Writes log files anew: to repair one, to back one up, and to restore it.

A new file has the current objects alone, under revisions above every earlier one: watches begin
again, as after a compaction. It takes the place of the old one in one transaction of SQLite, so
a crash leaves the one or the other.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing, suppress

import apsw
import msgspec

from datum_compute.apiserver.storage.protocol import Damage, StoreDamaged, StoreRefused
from datum_compute.apiserver.storage.sqlite.checksums import row_checksum
from datum_compute.apiserver.storage.sqlite.head_file import SUFFIX, HeadDamaged, HeadFile
from datum_compute.apiserver.storage.sqlite.inspection import Inspection, check
from datum_compute.apiserver.storage.sqlite.log_file import (
    LogFile,
    PlaneRow,
    Tally,
    first_revision,
)
from datum_compute.env import Environment

_BESIDE = ("-wal", "-shm", SUFFIX)
"""The endings of the files beside a database."""


def exists(path: str) -> bool:
    return any(os.path.exists(path + ending) for ending in ("", *_BESIDE))


def repair(env: Environment, path: str, keep_in: str) -> list[Damage]:
    with closing(Inspection(path)) as found:
        if not found.damages:
            return []
        if not found.is_readable:
            raise StoreDamaged(path, found.damages)
        os.mkdir(keep_in, 0o700)
        for each in (path, *(path + ending for ending in _BESIDE)):
            with suppress(FileNotFoundError):
                shutil.copy2(each, keep_in)
        commits = _write_new(env, found, path, found.commits)
    _take_place(path, commits)
    if left := check(path):
        raise StoreDamaged(path, left)
    return found.damages


def back_up(path: str, target: str) -> None:
    if os.path.exists(target):
        raise FileExistsError(f"{target} exists")
    temporary = target + ".new"
    _remove(temporary)
    with closing(Inspection(path)) as found:
        if found.damages:
            raise StoreDamaged(path, found.damages)
        if not found.is_readable:
            raise StoreRefused(f"nothing is stored in {path}")
        os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600))
        with closing(apsw.Connection(temporary)) as copy:
            found.copy_to(copy)
            # One file, with none beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
    os.replace(temporary, target)


def restore(env: Environment, path: str, source: str) -> None:
    if damages := check(source, is_backup=True):
        raise StoreDamaged(source, damages)
    with closing(Inspection(source, has_head=False)) as found:
        try:
            acknowledged = HeadFile(path).read() or 0
        except HeadDamaged:
            acknowledged = 0
        commits = _write_new(env, found, path, max(acknowledged, found.commits))
    _take_place(path, commits)


def _write_new(env: Environment, found: Inspection, path: str, commits: int) -> int:
    """Write what is proved to a new file beside ``path``. Returns the number of its commit."""
    temporary = path + ".new"
    _remove(temporary)
    with closing(LogFile(temporary)) as file:
        file.commits = max(file.commits, commits)
        file.begin()
        tallies = {contents.row.name: Tally() for contents in found.planes}
        for plane, row in found.current_rows():
            fields = msgspec.structs.astuple(row)
            file.append([(*fields, row_checksum(plane, *fields))])
            tallies[plane].add(row.seq, row.resource, created=True, deleted=False)
        start = first_revision(env.now())
        for contents in found.planes:
            name, revision = contents.row.name, max(start, contents.highest + 1)
            new = PlaneRow(name, contents.row.id, revision, revision, tallies[name])
            file.put_planes([new])
        file.put_planes(found.retired)
        for user in found.users:
            file.put_user(user)
        file.commit()
        return file.commits


def _take_place(path: str, commits: int) -> None:
    """Put the new file in the place of the one at ``path``."""
    temporary = path + ".new"
    try:
        with (
            closing(apsw.Connection(temporary)) as new,
            closing(apsw.Connection(path)) as old,
            old.backup("main", new, "main") as copy,
        ):
            copy.step(-1)
    except apsw.Error as error:
        if isinstance(error, apsw.BusyError | apsw.FullError | apsw.ReadOnlyError):
            raise StoreRefused(f"{path} cannot be replaced: {error}") from error
        # What is there is no database: nothing of it can be mixed with the new one.
        for ending in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(path + ending)
        os.replace(temporary, path)
    HeadFile(path).create(commits)
    _remove(temporary)


def _remove(path: str) -> None:
    for each in (path, *(path + ending for ending in _BESIDE)):
        with suppress(FileNotFoundError):
            os.unlink(each)
