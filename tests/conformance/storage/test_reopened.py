"""A reopened store has the same planes, objects, indexes and users."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from datum_compute.apiserver.storage.protocol import (
    KEPT_BYTES,
    EncodedObject,
    PlaneStore,
    Store,
    StoredUser,
    StoreEvent,
)
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.stores import THINGS, OpenStore, contents, put, remove, thing

OWNER = {"uid": "uid-one", "apiVersion": "v1", "kind": "Thing", "name": "one"}


async def test_a_reopened_store_has_the_same_objects_history_and_indexes(
    open_store: OpenStore, path: str
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")
    first = put(plane, "one", labels={"a": "b"})
    put(plane, "two", ownerReferences=[OWNER], finalizers=["x"])
    put(plane, "one", 2, labels={"a": "c"})
    put(plane, "gone")
    remove(plane, "gone")
    await store.wait_durable()
    before = [_record(store, event) for event in plane.table(THINGS).since(first.revision)]
    store.close()

    again = open_store(env, path)
    reopened = again.planes["p"]

    assert contents(reopened) == contents(plane)
    assert reopened.revision == reopened.committed == plane.revision
    assert reopened.find_by_uid("uid-one") == (THINGS, "ns", "one")
    assert reopened.find_by_uid("uid-gone") is None
    assert list(reopened.dependents_of("uid-one")) == [(THINGS, "ns", "two")]
    assert [table.resource for table in reopened.all_tables()] == [THINGS]
    two = reopened.get((THINGS, "ns", "two"))
    assert two is not None
    assert (two.finalizers, [owner.name for owner in two.owners]) == (("x",), ["one"])
    after = [_record(again, event) for event in reopened.table(THINGS).since(first.revision)]
    assert after == before
    again.close()


async def test_large_objects_are_the_same_and_not_kept_in_memory(
    open_store: OpenStore, path: str
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")
    text = "x" * KEPT_BYTES
    for number in range(30):
        put(plane, f"large{number}", annotations={"text": text}, labels={"a": "b"})
        await store.wait_durable()
    put(plane, "large0", 2, annotations={"text": text})
    put(plane, "large0", 3, annotations={"text": text})
    remove(plane, "large1")
    visible = contents(plane)
    await store.wait_durable()

    assert contents(plane) == visible
    assert _kept(plane) == 0
    store.close()
    again = open_store(env, path)
    assert contents(again.planes["p"]) == visible
    assert _kept(again.planes["p"]) == 0
    row = again.planes["p"].get((THINGS, "ns", "large2"))
    assert row is not None
    assert (row.labels, row.size) == ({"a": "b"}, len(visible["large2"]))
    again.close()


def _kept(plane: PlaneStore) -> int:
    return sum(len(row.raw) for row in plane.table(THINGS).in_order(None))


async def test_an_object_that_was_encoded_elsewhere_is_stored_with_its_revision(
    open_store: OpenStore, path: str
) -> None:
    store = open_store(SimulatedEnvironment(), path)
    plane = store.open_plane("p")
    obj = thing("one", labels={"a": "b"}, ownerReferences=[OWNER], finalizers=["x"])
    obj["metadata"]["resourceVersion"] = "4711"
    raw = msgspec.json.encode(obj)

    first = plane.put(THINGS, EncodedObject(raw, b"4711"), None, validated_by=store)
    same = plane.put(THINGS, obj, first)
    await store.wait_durable()

    found = msgspec.json.decode(store.value(first))
    assert found["metadata"].pop("resourceVersion") == str(first.revision)
    assert same.owners == first.owners
    assert (first.labels, first.finalizers, first.validated_by) == ({"a": "b"}, ("x",), store)
    assert list(plane.dependents_of("uid-one")) == [(THINGS, "ns", "one")]
    gone = plane.remove(THINGS, EncodedObject(raw, b"4711"), same)
    await store.wait_durable()
    assert f'"{gone.revision}"'.encode() in store.value(gone)
    assert contents(plane) == {}
    store.close()


def _record(store: Store, event: StoreEvent) -> tuple[Any, ...]:
    before = event.before and (event.before.labels, store.value(event.before))
    return event.revision, event.deleted, before, event.after.labels, store.value(event.after)


async def test_indexes_follow_every_change(open_store: OpenStore, path: str) -> None:
    store = open_store(SimulatedEnvironment(), path)
    plane = store.open_plane("p")
    put(plane, "one")
    put(plane, "b", ownerReferences=[OWNER])
    put(plane, "a", ownerReferences=[OWNER])
    in_order = list(plane.dependents_of("uid-one"))

    put(plane, "b")
    remove(plane, "one")

    assert in_order == [(THINGS, "ns", "b"), (THINGS, "ns", "a")]
    assert list(plane.dependents_of("uid-one")) == [(THINGS, "ns", "a")]
    assert plane.find_by_uid("uid-one") is None
    assert plane.get((THINGS, "ns", "one")) is None
    await store.wait_durable()
    store.close()


async def test_objects_are_listed_by_namespace_and_name(open_store: OpenStore, path: str) -> None:
    store = open_store(SimulatedEnvironment(), path)
    plane = store.open_plane("p")
    table = plane.table(THINGS)
    for namespace, name in [("b", "x"), ("a", "z"), ("a", "y")]:
        plane.put(THINGS, thing(name, namespace=namespace, uid=namespace + name), None)

    listed = [(row.namespace, row.name) for row in table.in_order(None)]

    assert listed == [("a", "y"), ("a", "z"), ("b", "x")]
    assert [row.name for row in table.in_order("a")] == ["y", "z"]
    assert (table.has_objects(None), table.has_objects("b")) == (True, True)
    assert table.has_objects("c") is plane.table("others").has_objects(None) is False
    await store.wait_durable()
    store.close()


async def test_a_plane_created_again_is_empty_and_starts_above_the_dropped_one(
    open_store: OpenStore, path: str
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")
    put(plane, "one")
    await store.wait_durable()
    store.drop_plane("p")
    await store.wait_durable()
    while store.compact_step():
        pass
    store.close()
    again = open_store(env, path)
    dropped = dict(again.planes)

    recreated = again.open_plane("p")

    assert dropped == {}
    assert contents(recreated) == {}
    assert recreated.revision >= plane.revision
    assert put(recreated, "two").revision > plane.revision
    await again.wait_durable()
    again.close()


async def test_a_new_store_starts_above_the_revisions_of_the_previous_one(
    open_store: OpenStore, path: str
) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    plane = store.open_plane("p")
    for number in range(1000):
        put(plane, f"n{number}")
    await asyncio.sleep(1)

    other = open_store(env, path + "-other")

    assert other.open_plane("p").revision > plane.revision
    await other.wait_durable()
    store.close()
    other.close()


async def test_a_user_keeps_only_its_latest_token(open_store: OpenStore, path: str) -> None:
    env = SimulatedEnvironment()
    store = open_store(env, path)
    store.add_user("bob", ["developers"], b"first")
    store.add_user("bob", ["admins"], b"second")
    store.add_user("eve", [], b"third")
    store.add_user("gone", [], b"fourth")
    store.remove_user("gone")
    users = dict(store.users)
    store.close()

    again = open_store(env, path)

    expected = {b"second": StoredUser("bob", ("admins",)), b"third": StoredUser("eve", ())}
    assert users == dict(again.users) == expected
    again.close()
