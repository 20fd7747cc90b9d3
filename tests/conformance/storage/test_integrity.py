"""A store can be checked, backed up and restored; what is damaged is refused and repaired."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from datum_compute.apiserver.storage.protocol import Engine, Store, StoreDamaged, StoreRefused
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.stores import contents, put, remove


async def write_some(engine: Engine, path: str) -> Store:
    store = engine.open_store(SimulatedEnvironment(), path)
    plane = store.open_plane("project/demo")
    for number in range(20):
        put(plane, f"n{number}", number)
    remove(plane, "n3")
    store.add_user("bob", ("developers",), b"hash")
    await store.wait_durable()
    return store


def garble(path: str) -> None:
    """Change every stored object a little, wherever the engine keeps it."""
    for file in Path(path).parent.glob(f"{Path(path).name}*"):
        file.write_bytes(file.read_bytes().replace(b'"Thing"', b'"Thong"'))


async def test_a_path_exists_once_something_is_stored(engine: Engine, path: str) -> None:
    before = engine.exists(path)

    (await write_some(engine, path)).close()

    assert (before, engine.exists(path)) == (False, True)


async def test_a_sound_store_has_no_damage_whether_open_or_closed(
    engine: Engine, path: str
) -> None:
    store = await write_some(engine, path)
    while_open = engine.check(path)
    store.close()

    assert (while_open, engine.check(path)) == ([], [])


async def test_a_store_is_sound_after_a_user_is_removed(engine: Engine, path: str) -> None:
    store = await write_some(engine, path)
    store.remove_user("bob")
    store.close()

    again = engine.open_store(SimulatedEnvironment(), path)

    assert dict(again.users) == {}
    again.close()
    assert engine.check(path) == []


async def test_a_repair_of_a_sound_store_changes_nothing(
    engine: Engine, path: str, tmp_path: Path
) -> None:
    store = await write_some(engine, path)
    revision = store.planes["project/demo"].revision
    store.close()

    assert engine.repair(SimulatedEnvironment(), path, str(tmp_path / "kept")) == []

    again = engine.open_store(SimulatedEnvironment(), path)
    assert again.planes["project/demo"].revision == revision
    assert not (tmp_path / "kept").exists()
    again.close()


async def test_changed_objects_are_refused_by_name_and_repaired(
    engine: Engine, path: str, tmp_path: Path
) -> None:
    (await write_some(engine, path)).close()
    garble(path)

    with pytest.raises(StoreDamaged) as caught:
        engine.open_store(SimulatedEnvironment(), path)
    damages = engine.check(path)
    engine.repair(SimulatedEnvironment(), path, str(tmp_path / "kept"))

    assert {each.plane for each in damages} == {"project/demo"}
    assert {each.name for each in damages} >= {"n0", "n19"}
    assert caught.value.damages == tuple(damages)
    assert engine.check(path) == []
    again = engine.open_store(SimulatedEnvironment(), path)
    assert contents(again.planes["project/demo"]) == {}
    assert [user.name for user in again.users.values()] == ["bob"]
    again.close()


async def test_a_backup_of_an_open_store_restores_what_was_committed(
    engine: Engine, path: str, tmp_path: Path
) -> None:
    backup = str(tmp_path / "backup")
    store = await write_some(engine, path)
    plane = store.planes["project/demo"]
    before = contents(plane)
    engine.back_up(path, backup)
    put(plane, "later")
    await store.wait_durable()
    store.close()

    env = SimulatedEnvironment()
    await asyncio.sleep(60)
    engine.restore(env, path, backup)

    again = engine.open_store(env, path)
    restored = again.planes["project/demo"]
    assert contents(restored) == before
    assert restored.revision > plane.revision, "a client that saw later revisions starts again"
    assert restored.compacted == restored.revision
    assert [user.name for user in again.users.values()] == ["bob"]
    put(restored, "more")
    await again.wait_durable()
    again.close()
    assert engine.check(path) == []


async def test_a_backup_is_restored_where_nothing_is_stored(
    engine: Engine, path: str, tmp_path: Path
) -> None:
    backup = str(tmp_path / "backup")
    (await write_some(engine, path)).close()
    engine.back_up(path, backup)

    engine.restore(SimulatedEnvironment(), path + "-other", backup)

    again = engine.open_store(SimulatedEnvironment(), path + "-other")
    assert len(contents(again.planes["project/demo"])) == 19
    again.close()


async def test_a_backup_replaces_no_file(engine: Engine, path: str, tmp_path: Path) -> None:
    (await write_some(engine, path)).close()
    (tmp_path / "mine").write_text("precious")

    with pytest.raises(FileExistsError):
        engine.back_up(path, str(tmp_path / "mine"))

    assert (tmp_path / "mine").read_text() == "precious"


async def test_what_is_no_backup_is_not_restored(engine: Engine, path: str, tmp_path: Path) -> None:
    (await write_some(engine, path)).close()
    other = tmp_path / "letter"
    other.write_text("Dear Sir or Madam, " * 400)

    with pytest.raises(StoreRefused, match="letter"):
        engine.restore(SimulatedEnvironment(), path, str(other))

    again = engine.open_store(SimulatedEnvironment(), path)
    assert len(contents(again.planes["project/demo"])) == 19
    again.close()
