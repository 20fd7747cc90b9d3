"""A full disk: nothing acknowledged is lost, and with room the same server serves again."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from datum_compute.apiserver.storage.protocol import StoreFull
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.apiserver.storage.sqlite.transactions import ROOM_SECONDS
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.recorded_disk import recorded_disk
from tests.support.apiserver.stores import THINGS, Recorder, contents, put, remove
from tests.support.apiserver.widgets import WIDGETS_PATH, widget, widget_server

PLENTY = 1 << 40


async def test_the_server_refuses_while_the_disk_is_full_and_serves_when_there_is_room(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    acknowledged: dict[str, str] = {}
    with recorded_disk() as disk:
        async with widget_server(SimulatedEnvironment(), path) as caller:
            disk.room = 2_000_000
            for number in range(1_000):
                body = widget(f"w{number}", {"color": "x" * 10_000})
                code, made = await caller.call("POST", WIDGETS_PATH, body)
                if code != 201:
                    break
                acknowledged[f"w{number}"] = made["metadata"]["resourceVersion"]
            begun = f"w{len(acknowledged)}"
            assert (code, made["reason"]) == (503, "ServiceUnavailable")
            assert "disk of the server is full" in made["message"]
            for method, target in (("GET", WIDGETS_PATH), ("DELETE", f"{WIDGETS_PATH}/w0")):
                code, refused = await caller.call(method, target)
                assert (code, refused["reason"]) == (503, "ServiceUnavailable")
            await asyncio.sleep(600 * ROOM_SECONDS)
            assert (await caller.call("GET", WIDGETS_PATH))[0] == 503

            disk.room = PLENTY
            await asyncio.sleep(2 * ROOM_SECONDS)
            await caller.create("after")
            code, listed = await caller.call("GET", WIDGETS_PATH)
            served = {
                each["metadata"]["name"]: each["metadata"]["resourceVersion"]
                for each in listed["items"]
            }
        async with widget_server(SimulatedEnvironment(), path) as caller:
            _, listed = await caller.call("GET", WIDGETS_PATH)
            kept = {
                each["metadata"]["name"]: each["metadata"]["resourceVersion"]
                for each in listed["items"]
            }

    assert len(acknowledged) > 20
    assert acknowledged.items() <= served.items()
    assert served.keys() - acknowledged.keys() == {begun, "after"}
    assert kept == served


async def test_garbage_is_collected_after_a_full_disk(tmp_path: Path) -> None:
    with recorded_disk() as disk:
        async with widget_server(SimulatedEnvironment(), tmp_path / "state.db") as caller:
            owner = await caller.create("owner")
            reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "owner"}
            owners = [{**reference, "uid": owner["metadata"]["uid"]}]
            await caller.create("owned", ownerReferences=owners)
            disk.room = 0
            assert (await caller.delete("owner"))[0] == 503
            disk.room = PLENTY
            await asyncio.sleep(5 * ROOM_SECONDS)

            assert not await caller.exists("owner")
            assert not await caller.exists("owned")


async def test_a_compaction_that_finds_no_room_refuses_writes_and_not_reads(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "state.db")
    with recorded_disk() as disk:
        store = LogStore(SimulatedEnvironment(), path)
        plane = store.open_plane("project/demo")
        for size in range(100):
            put(plane, "one", size)
            await store.wait_durable()
        await asyncio.sleep(1000)
        disk.room = 0
        with pytest.raises(StoreFull):
            store.compact_step()
        await store.wait_durable()
        with pytest.raises(StoreFull):
            put(plane, "two")

        disk.room = PLENTY
        await store.wait_for_room()
        put(plane, "three")
        await store.wait_durable()
        found = contents(plane)
        store.close()
        again = LogStore(SimulatedEnvironment(), path)
        assert contents(again.planes["project/demo"]) == found
        assert sorted(found) == ["one", "three"]
        again.close()


async def test_a_user_that_finds_no_room_is_not_added(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    with recorded_disk() as disk:
        store = LogStore(SimulatedEnvironment(), path)
        store.add_user("ana", (), b"a")
        disk.room = 0
        with pytest.raises(StoreFull):
            store.add_user("bob", (), b"b")
        with pytest.raises(StoreFull):
            store.remove_user("ana")
        disk.room = PLENTY
        put(store.open_plane("project/demo"), "one")
        await store.wait_durable()
        store.close()
        again = LogStore(SimulatedEnvironment(), path)
        assert [user.name for user in again.users.values()] == ["ana"]
        again.close()


@pytest.mark.parametrize("seed", range(20))
async def test_whenever_the_disk_fills_watches_have_no_gap_and_the_file_is_what_was_served(
    tmp_path: Path, seed: int
) -> None:
    path = str(tmp_path / "state.db")
    chance = random.Random(seed)
    refused = 0
    with recorded_disk() as disk:
        store = LogStore(SimulatedEnvironment(), path)
        plane = store.open_plane("project/demo")
        await store.wait_durable()
        first = plane.revision
        sink = Recorder(plane, plane.table(THINGS))
        for number in range(200):
            disk.room = chance.choice((0, 5_000, 30_000, PLENTY))
            name = f"thing-{chance.randrange(8)}"
            try:
                if plane.get((THINGS, "ns", name)) is not None and chance.random() < 0.3:
                    remove(plane, name)
                else:
                    put(plane, name, number, annotations={"fill": "x" * chance.randrange(9_000)})
                if chance.random() < 0.2:
                    await asyncio.sleep(400)
                    store.compact_step()
                await store.wait_durable()
            except StoreFull:
                refused += 1
                await asyncio.sleep(chance.random() * 3)
        disk.room = PLENTY
        await store.wait_for_room()
        await store.wait_durable()
        found = contents(plane)
        store.close()
        again = LogStore(SimulatedEnvironment(), path)
        assert contents(again.planes["project/demo"]) == found
        again.close()

    assert refused > 10
    assert sink.early == []
    revisions = [event.revision for event in sink.events]
    assert revisions == list(range(first + 1, plane.revision + 1))
