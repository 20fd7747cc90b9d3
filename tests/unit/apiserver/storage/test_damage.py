"""A damaged file is refused by name, or has the last acknowledged state; never another one."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from datum_compute.apiserver.storage.protocol import (
    KEPT_BYTES,
    Damage,
    HistoryDamaged,
    StoreDamaged,
    StoreRefused,
)
from datum_compute.apiserver.storage.sqlite import back_up, check, repair, restore
from datum_compute.apiserver.storage.sqlite.head_file import HeadFile
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import run
from tests.support.apiserver.damage import (
    CERTAIN_NAMES,
    DAMAGES,
    StoredFiles,
    state_of,
    write_stored_files,
)
from tests.support.apiserver.stores import put, remove
from tests.support.apiserver.widgets import WIDGETS_PATH, widget_server

MANY, QUICK, CHUNK = 5000, 200, 50
"""How many cases there are, how many run with the ordinary tests, and how many at a time."""


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> list[StoredFiles]:
    return run(write_stored_files(tmp_path_factory.mktemp("stored"), seed=1))


def open_or_refuse(path: Path) -> LogStore | StoreRefused:
    try:
        return LogStore(SimulatedEnvironment(), str(path))
    except StoreRefused as error:
        return error


def outcome(moment: StoredFiles, number: int, directory: Path) -> str:
    """Damage a copy and open it. Asserts what is promised, and says how it ended."""
    damage = DAMAGES[number // 3 % len(DAMAGES)]
    case = f"{damage.__name__} {number} of {moment.directory.name}"
    path = moment.copy_to(directory / "state")
    damage(path, random.Random(number))
    found = open_or_refuse(path)
    if isinstance(found, StoreRefused):
        assert str(path) in str(found), case
        if not isinstance(found, StoreDamaged):
            return "refused: layout of a later version"
        assert check(str(path)), case
        return repaired(moment, path, case, is_name_certain=damage in CERTAIN_NAMES)
    assert state_of(found) == moment.state, case
    for name, plane in found.planes.items():
        for table in plane.all_tables():
            for event in table.since(plane.compacted):
                known = moment.versions[name, table.resource, event.after.name]
                assert event.deleted or found.value(event.after) in known, case
    found.close()
    assert check(str(path)) == [], case
    return "opened: the last acknowledged state"


def repaired(moment: StoredFiles, path: Path, case: str, *, is_name_certain: bool) -> str:
    """Every object of a repaired file is one that was acknowledged, and each that is not as it
    last was is in the report."""
    keep = path.parent / "kept"
    try:
        damages = repair(SimulatedEnvironment(), str(path), str(keep))
    except StoreDamaged:
        return "refused: nothing can be read"
    store = LogStore(SimulatedEnvironment(), str(path))
    found = state_of(store)
    store.close()
    untrue = [key for key, value in found.items() if value not in moment.versions.get(key, ())]
    assert untrue == [], case
    changed = {key for key in found | moment.state if found.get(key) != moment.state.get(key)}
    if is_name_certain:
        damages = [each for each in damages if each.name]
    assert unreported(changed, damages) == [], case
    if not changed:
        return "refused: repaired to the last acknowledged state"
    return "refused: repaired with older or fewer objects"


def unreported(changed: Iterable[tuple[str, str, str]], damages: list[Damage]) -> list[object]:
    """Those that no damage names. One without a name is about all objects of its resource, plane
    or file: nothing that can still be read has their names."""
    reported = {(each.plane, each.resource, each.name) for each in damages}
    return [
        (plane, resource, name)
        for plane, resource, name in changed
        if reported.isdisjoint(
            {(plane, resource, name), (plane, resource, ""), (plane, "", ""), ("", "", "")}
        )
    ]


def chunks() -> list[object]:
    """The first run with the ordinary tests, the others with the long ones."""
    quick = QUICK // CHUNK
    return [
        pytest.param(number, marks=[] if number < quick else pytest.mark.long)
        for number in range(MANY // CHUNK)
    ]


@pytest.mark.parametrize("chunk", chunks())
def test_no_damage_leads_to_a_state_that_was_not_acknowledged(
    moments: list[StoredFiles], tmp_path: Path, chunk: int
) -> None:
    found = Counter(
        outcome(moments[number % 3], number, tmp_path)
        for number in range(chunk * CHUNK, (chunk + 1) * CHUNK)
    )

    print("outcomes:", dict(found))
    assert len(found) >= 3, found


async def write_three(path: Path) -> LogStore:
    """``one`` in two versions, ``two`` in one, and ``gone`` deleted."""
    store = LogStore(SimulatedEnvironment(), str(path))
    plane = store.open_plane("project/demo")
    put(plane, "one", 1)
    put(plane, "two", 1)
    put(plane, "gone", 1)
    await store.wait_durable()
    put(plane, "one", 2)
    remove(plane, "gone")
    await store.wait_durable()
    return store


def sql(path: Path, statement: str) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute(statement)


def change(path: Path, where: str) -> None:
    """Change the kind in the stored JSON of these rows, as one wrong byte would."""
    sql(path, f"UPDATE log SET value = CAST(replace(value, 'Thing', 'Thong') AS BLOB) {where}")


def opened(path: Path) -> LogStore:
    return LogStore(SimulatedEnvironment(), str(path))


async def test_a_changed_byte_is_refused_and_names_plane_resource_and_object(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    (await write_three(path)).close()
    change(path, "WHERE name = 'two'")

    with pytest.raises(StoreDamaged) as caught:
        opened(path)

    (damage,) = caught.value.damages
    assert (damage.plane, damage.resource, damage.namespace, damage.name) == (
        "project/demo",
        "things",
        "ns",
        "two",
    )
    assert "checksum" in damage.problem
    assert f"{path} is damaged: plane project/demo things ns/two: " in str(caught.value)


async def test_an_empty_database_is_refused_where_state_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    (await write_three(path)).close()
    for damage in (lambda: path.write_bytes(b""), path.unlink):
        damage()

        with pytest.raises(StoreDamaged, match="missing or empty"):
            opened(path)


async def test_a_removed_write_ahead_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "live" / "state.db"
    path.parent.mkdir()
    store = await write_three(path)
    killed = tmp_path / "killed"
    shutil.copytree(path.parent, killed)
    store.close()
    (killed / "state.db-wal").unlink()
    (killed / "state.db-shm").unlink(missing_ok=True)

    with pytest.raises(StoreDamaged, match="write-ahead log was removed"):
        opened(killed / "state.db")


async def test_a_database_may_be_one_commit_ahead_of_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    """A process may be killed between the two writes."""
    path = tmp_path / "state.db"
    store = await write_three(path)
    state = state_of(store)
    store.close()
    head = HeadFile(str(path))
    acknowledged = head.read()
    assert acknowledged is not None
    head.create(acknowledged - 1)

    again = opened(path)

    assert state_of(again) == state
    again.close()


def test_a_number_that_was_written_in_part_leaves_the_one_before(tmp_path: Path) -> None:
    head = HeadFile(str(tmp_path / "state.db"))
    head.create(7)
    head.write(8)
    head.write(9)
    head.close()
    file = Path(head.path)
    file.write_bytes(file.read_bytes().replace(b"%020d" % 9, b"%020d" % 19))

    assert head.read() == 8


async def test_a_start_that_was_cut_off_before_its_first_commit_starts_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    HeadFile(str(path)).create(0)

    opened(path).close()

    assert check(str(path)) == []


async def test_repair_rolls_back_or_drops_only_what_is_damaged_and_keeps_a_copy(
    tmp_path: Path,
) -> None:
    path, kept = tmp_path / "state.db", tmp_path / "kept"
    store = await write_three(path)
    revision = store.planes["project/demo"].revision
    store.close()
    change(
        path,
        "WHERE name = 'two' OR (name = 'one' AND revision = (SELECT max(revision)"
        " FROM log WHERE name = 'one'))",
    )

    damages = repair(SimulatedEnvironment(), str(path), str(kept))

    remedies = {damage.name: damage.remedy.rpartition(" ")[0] for damage in damages}
    assert remedies == {"one": "goes back to revision", "two": "is"}
    again = opened(path)
    found = state_of(again)
    assert {key[2]: b'"size":1' in raw for key, raw in found.items()} == {"one": True}
    assert again.planes["project/demo"].compacted > revision
    again.close()
    assert (kept / "state.db").exists()
    assert check(str(path)) == []


@pytest.mark.parametrize("columns", ["value", "value, checksum", "name, value, checksum"])
async def test_repair_puts_exchanged_values_back_and_loses_nothing(
    tmp_path: Path, columns: str
) -> None:
    path = tmp_path / "state.db"
    store = await write_three(path)
    state = state_of(store)
    store.close()
    sql(
        path,
        "CREATE TEMP TABLE copied AS SELECT * FROM log;"
        f"UPDATE log SET ({columns}) = (SELECT {columns} FROM copied WHERE seq = 6 - log.seq)"
        " WHERE seq IN (2, 4)",
    )

    damages = repair(SimulatedEnvironment(), str(path), str(tmp_path / "kept"))

    named = {(each.name, each.remedy) for each in damages}
    assert named == {("one", "is set right"), ("two", "is set right")}
    again = opened(path)
    assert state_of(again) == state
    again.close()


@pytest.mark.parametrize("column", ["seq", "revision"])
async def test_repair_deletes_no_object_for_a_damaged_deletion_before_it(
    tmp_path: Path, column: str
) -> None:
    path = tmp_path / "state.db"
    store = await write_three(path)
    put(store.planes["project/demo"], "gone", 3)
    await store.wait_durable()
    state = state_of(store)
    store.close()
    sql(path, f"UPDATE log SET {column} = 1 << 60, value = CAST('' AS BLOB) WHERE type = 1")

    repair(SimulatedEnvironment(), str(path), str(tmp_path / "kept"))

    again = opened(path)
    assert state_of(again) == state
    again.close()


async def test_a_damaged_version_of_the_history_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = await write_three(path)
    first = store.planes["project/demo"].table("things").since(0)[0].after
    change(path, f"WHERE seq = {first.handle}")

    with pytest.raises(HistoryDamaged, match="ns/one at revision"):
        store.value(first)

    store.close()


async def test_a_large_object_that_is_damaged_meanwhile_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with widget_server(path=path) as caller:
        await caller.create("large", {"color": "Thing" * KEPT_BYTES})
        await caller.create("small")
        change(path, "WHERE name = 'large'")

        code, answer = await caller.call("GET", f"{WIDGETS_PATH}/large")

        assert (code, answer["reason"]) == (500, "InternalError")
        assert "the stored object default/large at revision" in answer["message"]
        assert (await caller.get("small"))["metadata"]["name"] == "small"


async def test_a_damaged_file_is_neither_backed_up_nor_restored(tmp_path: Path) -> None:
    path, backup = tmp_path / "state.db", tmp_path / "backup"
    (await write_three(path)).close()
    back_up(str(path), str(backup))
    change(path, "WHERE name = 'two'")
    sql(backup, "UPDATE planes SET revision = revision + 1")

    with pytest.raises(StoreDamaged, match="ns/two"):
        back_up(str(path), str(tmp_path / "second"))
    with pytest.raises(StoreDamaged, match="plane"):
        restore(SimulatedEnvironment(), str(path), str(backup))

    assert not (tmp_path / "second").exists()
