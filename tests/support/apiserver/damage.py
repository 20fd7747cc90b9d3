"""A stored file with known acknowledged states, and many ways to damage it."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from datum_compute.apiserver.storage.protocol import PlaneStore, Store, StoreEvent, Table
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.stores import thing

PAGE = 4096
ENDINGS = ("", "-wal", "-head")
"""Of the files that make up a store; SQLite makes ``-shm`` anew."""

PLANES = ("root", "hub", "project/demo", "cell/dfw")
RESOURCES = ("things", "others")

State = dict[tuple[str, str, str], bytes]
"""Plane, resource and name to bytes; users are there too."""


@dataclass
class StoredFiles:
    """The files of a store at one moment, and what was acknowledged until then."""

    directory: Path
    state: State
    """The last acknowledged."""
    versions: dict[tuple[str, str, str], set[bytes]] = field(default_factory=dict)
    """Every acknowledged version of each object."""

    def copy_to(self, directory: Path) -> Path:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self.directory, directory)
        return directory / "state.db"


def state_of(store: Store) -> State:
    found: State = {
        (name, table.resource, row.name): row.raw
        for name, plane in store.planes.items()
        for table in plane.all_tables()
        for row in table.in_order(None)
    }
    for token, user in store.users.items():
        found["", "users", user.name] = token + repr(user.groups).encode()
    return found


async def write_stored_files(directory: Path, seed: int) -> list[StoredFiles]:
    """A store as a killed process leaves it, early and late, and as a closed one does."""
    chance = random.Random(seed)
    env = SimulatedEnvironment()
    database = directory / "live" / "state.db"
    database.parent.mkdir(parents=True)
    store = LogStore(env, str(database))
    versions: dict[tuple[str, str, str], set[bytes]] = {}
    moments: list[StoredFiles] = []

    def remember(state: State) -> None:
        for key, value in state.items():
            versions.setdefault(key, set()).add(value)

    def listen(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        if not event.deleted:
            remember({(plane.name, table.resource, event.after.name): event.after.raw})

    store.subscribe(listen)

    def keep(name: str, state: State) -> None:
        target = directory / name
        target.mkdir()
        for ending in ENDINGS:
            with suppress(FileNotFoundError):
                shutil.copy2(f"{database}{ending}", target)
        seen = {key: set(values) for key, values in versions.items()}
        moments.append(StoredFiles(target, state, seen))

    for number in range(120):
        for _ in range(chance.randrange(1, 6)):
            _change(store, chance, number)
        if number % 20 == 3:
            store.add_user(f"user-{number % 3}", ("g",), chance.randbytes(32))
        if number == 60:
            store.open_plane("cell/gone").put("things", thing("x"), None)
        if number == 70:
            store.drop_plane("cell/gone")
        await store.wait_durable()
        remember(state_of(store))
        if number == 80:
            await _age(store)
        if number == 90:
            keep("early", state_of(store))
    keep("killed", state_of(store))
    last = state_of(store)
    store.close()
    keep("closed", last)
    return moments


async def _age(store: LogStore) -> None:
    await asyncio.sleep(1000)
    while store.compact_step():
        pass


def _change(store: LogStore, chance: random.Random, number: int) -> None:
    plane = store.open_plane(chance.choice(PLANES))
    resource, name = chance.choice(RESOURCES), f"n{chance.randrange(12)}"
    before = plane.get((resource, "ns", name))
    size = 20_000 if chance.random() < 0.02 else chance.randrange(1200)
    obj = thing(name, size=number, annotations={"fill": "x" * size})
    if before is not None and chance.random() < 0.2:
        plane.remove(resource, obj, before)
    else:
        plane.put(resource, obj, before)


# Damage to bytes


def _file(database: Path, chance: random.Random) -> Path:
    there = [Path(f"{database}{ending}") for ending in ENDINGS]
    full = [path for path in there if path.exists() and path.stat().st_size]
    weights = [1 if path.name.endswith("-head") else 8 for path in full]
    return chance.choices(full, weights)[0]


def _edit(path: Path, change: Callable[[bytearray], None]) -> None:
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def flip_bit(database: Path, chance: random.Random) -> None:
    path = _file(database, chance)
    position = chance.randrange(path.stat().st_size * 8)

    def change(content: bytearray) -> None:
        content[position // 8] ^= 1 << position % 8

    _edit(path, change)


def flip_bit_of_first_page(database: Path, chance: random.Random) -> None:
    position = chance.randrange(PAGE * 8)

    def change(content: bytearray) -> None:
        content[position // 8] ^= 1 << position % 8

    _edit(database, change)


def change_byte_of_an_object(database: Path, chance: random.Random) -> None:
    """Where a value lies in the clear."""
    path = _file(database, chance)

    def change(content: bytearray) -> None:
        places = [at for at in range(len(content)) if content.startswith(b'"size":', at)]
        if places:
            content[chance.choice(places) + 7] = chance.choice(b"123456789")

    _edit(path, change)


def zero_page(database: Path, chance: random.Random) -> None:
    path = _file(database, chance)
    page = chance.randrange(max(1, path.stat().st_size // PAGE))

    def change(content: bytearray) -> None:
        part = content[page * PAGE : (page + 1) * PAGE]
        content[page * PAGE : (page + 1) * PAGE] = bytes(len(part))

    _edit(path, change)


def overwrite_with_noise(database: Path, chance: random.Random) -> None:
    path = _file(database, chance)
    at, length = chance.randrange(path.stat().st_size), chance.randrange(1, 512)

    def change(content: bytearray) -> None:
        length_there = len(content[at : at + length])
        content[at : at + length] = chance.randbytes(length_there)

    _edit(path, change)


def swap_pages(database: Path, chance: random.Random) -> None:
    pages = database.stat().st_size // PAGE
    one, other = (chance.randrange(pages) * PAGE for _ in range(2))

    def change(content: bytearray) -> None:
        kept = bytes(content[one : one + PAGE])
        content[one : one + PAGE] = content[other : other + PAGE]
        content[other : other + PAGE] = kept

    _edit(database, change)


def cut_off(database: Path, chance: random.Random) -> None:
    path = _file(database, chance)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(chance.choice([0, size - 1, chance.randrange(size)]))


def cut_wal(database: Path, chance: random.Random) -> None:
    wal = Path(f"{database}-wal")
    if wal.exists():
        with wal.open("r+b") as file:
            file.truncate(chance.randrange(wal.stat().st_size + 1))


def remove_file(database: Path, chance: random.Random) -> None:
    _file(database, chance).unlink()


def remove_wal(database: Path, chance: random.Random) -> None:
    Path(f"{database}-wal").unlink(missing_ok=True)


# Damage by SQL


def _sql(database: Path, statement: str, *values: Any) -> None:
    with closing(apsw.Connection(str(database))) as db:
        db.execute(statement, values)


def _seqs(database: Path, chance: random.Random, count: int) -> list[int]:
    with closing(apsw.Connection(str(database))) as db:
        found = [int(str(row[0])) for row in db.execute("SELECT seq FROM log")]
    return chance.sample(found, count)


def change_value(database: Path, chance: random.Random) -> None:
    (seq,) = _seqs(database, chance, 1)
    _sql(
        database,
        "UPDATE log SET value = CAST(replace(CAST(value AS TEXT), 'Thing', 'Thong') AS BLOB)"
        " WHERE seq = ?",
        seq,
    )


def swap_values(database: Path, chance: random.Random) -> None:
    """With their checksums or without."""
    one, other = _seqs(database, chance, 2)
    columns = chance.choice(["value", "value, checksum", "name, value, checksum"])
    with closing(apsw.Connection(str(database))) as db:
        rows = [
            db.execute(f"SELECT {columns} FROM log WHERE seq = ?", (seq,)).fetchall()[0]
            for seq in (one, other)
        ]
        marks = ", ".join("?" for _ in rows[0])
        for seq, row in zip((other, one), rows, strict=True):
            statement = f"UPDATE log SET ({columns}) = ({marks}) WHERE seq = ?"
            if "," not in columns:
                statement = f"UPDATE log SET {columns} = ? WHERE seq = ?"
            db.execute(statement, (*row, seq))


def change_column(database: Path, chance: random.Random) -> None:
    (seq,) = _seqs(database, chance, 1)
    column, value = chance.choice(
        [
            ("plane", chance.randrange(1, 9)),
            ("plane", "x"),
            ("revision", chance.randrange(1, 1 << 40)),
            ("resource", chance.choice(["things", "others", "elsewhere"])),
            ("namespace", "other"),
            ("name", f"n{chance.randrange(12)}"),
            ("type", chance.choice([0, 1, 2])),
            ("time", 5),
            ("value", b""),
            ("value", "{}"),
            ("value", b"{"),
            ("checksum", chance.randrange(1 << 32)),
            ("seq", 1_000_000),
        ]
    )
    _sql(database, f"UPDATE log SET {column} = ? WHERE seq = ?", value, seq)


def delete_rows(database: Path, chance: random.Random) -> None:
    for seq in _seqs(database, chance, chance.randrange(1, 4)):
        _sql(database, "DELETE FROM log WHERE seq = ?", seq)


def delete_last_rows(database: Path, chance: random.Random) -> None:
    count = chance.randrange(1, 10)
    _sql(
        database,
        "DELETE FROM log WHERE seq IN (SELECT seq FROM log ORDER BY seq DESC LIMIT ?)",
        count,
    )


def change_other_record(database: Path, chance: random.Random) -> None:
    statements = [
        "DELETE FROM log",
        "DELETE FROM planes WHERE name = 'hub'",
        "DELETE FROM planes",
        "UPDATE planes SET id = id + 1 WHERE name = 'root'",
        "UPDATE planes SET name = 'cell/lhr' WHERE name = 'cell/dfw'",
        "UPDATE planes SET revision = revision + 1 WHERE name = 'project/demo'",
        "UPDATE planes SET compacted = revision WHERE name = 'hub'",
        "UPDATE planes SET objects = '{}'",
        "UPDATE planes SET id = 0 WHERE name = 'root'",
        "DELETE FROM users WHERE name = 'user-0'",
        "UPDATE users SET groups = '[\"system:masters\"]' WHERE name = 'user-0'",
        "UPDATE users SET token = zeroblob(32) WHERE name = 'user-0'",
        "DELETE FROM users",
        "DELETE FROM planes WHERE name = ''",
        "UPDATE planes SET revision = revision + 1 WHERE name = ''",
        "UPDATE planes SET revision = revision - 1 WHERE name = ''",
        "DROP TABLE users",
        "DROP TABLE log",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 0",
        "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END",
        "ALTER TABLE log ADD COLUMN more",
    ]
    _sql(database, chance.choice(statements))


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    flip_bit,
    flip_bit_of_first_page,
    change_byte_of_an_object,
    zero_page,
    overwrite_with_noise,
    swap_pages,
    cut_off,
    cut_wal,
    remove_file,
    remove_wal,
    change_value,
    swap_values,
    change_column,
    delete_rows,
    delete_last_rows,
    change_other_record,
)

CERTAIN_NAMES = (change_value, swap_values, change_column)
"""After these the name of every object that is concerned can still be read."""
