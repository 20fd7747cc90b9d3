"""What a cache holds, how it is queried, and what it delivers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from datum_compute.api.meta import Object, ObjectMeta
from datum_compute.client.protocol import EventType, WatchEvent
from datum_compute.runtime.cache.cache import Cache, CacheExpectation
from tests.support.runtime.fake_plane import WIDGETS


def _widget(
    name: str, revision: int, *, namespace: str = "default", uid: str = "", **labels: str
) -> Object:
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{name}",
        resource_version=str(revision),
        labels=labels,
    )
    return Object("example.com/v1", "Widget", metadata)


def _by_color(obj: Object) -> Iterable[str]:
    color = obj.metadata.labels.get("color")
    return [color] if color else []


def _event(kind: EventType, obj: Object) -> WatchEvent:
    return WatchEvent(kind, obj)


class Listener:
    def __init__(self, cache: Cache) -> None:
        self.lines: list[str] = []
        self.unsubscribe = cache.subscribe(self._deliver)

    def _deliver(self, old: Object | None, new: Object | None) -> None:
        before = f"{old.name}@{old.metadata.resource_version}" if old else "-"
        after = f"{new.name}@{new.metadata.resource_version}" if new else "-"
        self.lines.append(f"{before} > {after}")


def test_lists_are_sorted_by_namespace_and_name() -> None:
    cache = Cache(WIDGETS)
    keys = [("b", "z"), ("a", "y"), ("b", "a"), ("a", "x")]
    cache.replace([_widget(name, 1, namespace=space) for space, name in keys], "1")

    assert [(o.namespace, o.name) for o in cache.list()] == sorted(keys)
    assert [o.name for o in cache.list("b")] == ["a", "z"]
    assert cache.list("c") == []


def test_an_object_is_found_by_name_and_namespace() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_widget("a", 1)], "1")

    assert cache.get("a", "default") is cache.list()[0]
    assert cache.get("a") is None
    assert cache.get("b", "default") is None


def _from_wire(name: str, revision: int, color: str) -> Object:
    """With strings of its own, as every event has them."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": str(revision),
        "labels": {"widgets.example.com/color-of-the-widget": color, "n": name},
        "finalizers": ["example.com/hold"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Box", "name": "box", "uid": "uid-box"}],
    }
    return Object.from_wire(msgspec.json.encode({"kind": "Widget", "metadata": metadata}))


def test_equal_parts_of_cached_objects_are_stored_once() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_from_wire("a", 1, "deep-red"), _from_wire("b", 2, "deep-red")], "2")
    first, other = cache.list()
    changes = [_from_wire("a", 3, "deep-red"), _from_wire("a", 4, "sky-blue")]
    for change in changes:
        cache.apply(_event(EventType.MODIFIED, change))

    same, recoloured = changes
    assert same.metadata.labels is first.metadata.labels
    assert same.metadata.owner_references is other.metadata.owner_references
    assert same.metadata.finalizers is other.metadata.finalizers
    strings = [next(iter(each.metadata.labels.items())) for each in (first, other, recoloured)]
    assert strings[0][0] is strings[1][0] is strings[2][0]
    assert strings[0][1] is strings[1][1]
    assert recoloured.metadata == _from_wire("a", 4, "sky-blue").metadata
    assert same.metadata == _from_wire("a", 3, "deep-red").metadata
    assert first.metadata == _from_wire("a", 1, "deep-red").metadata


def test_an_index_follows_every_change() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_widget("b", 1, color="red")], "1")
    cache.add_index("color", _by_color)
    cache.apply(_event(EventType.ADDED, _widget("a", 2, color="red")))
    assert [o.name for o in cache.by_index("color", "red")] == ["a", "b"]

    cache.apply(_event(EventType.MODIFIED, _widget("b", 3, color="blue")))
    cache.apply(_event(EventType.DELETED, _widget("a", 4, color="red")))

    assert cache.by_index("color", "red") == []
    assert [o.name for o in cache.by_index("color", "blue")] == ["b"]


def test_an_index_is_added_once_and_must_exist_to_be_used() -> None:
    cache = Cache(WIDGETS)
    cache.add_index("color", _by_color)
    cache.add_index("color", lambda obj: ["other"])
    cache.replace([_widget("a", 1, color="red")], "1")

    assert [o.name for o in cache.by_index("color", "red")] == ["a"]
    with pytest.raises(KeyError):
        cache.by_index("shape", "round")


def test_an_object_that_an_index_cannot_read_stays_in_the_cache() -> None:
    cache = Cache(WIDGETS)
    cache.add_index("color", lambda obj: [obj.metadata.labels["color"]])

    cache.replace([_widget("plain", 1), _widget("red", 1, color="red")], "1")

    assert len(cache) == 2
    assert [o.name for o in cache.by_index("color", "red")] == ["red"]


def test_subscribers_get_the_current_objects_and_then_every_change() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_widget("a", 1)], "1")

    listener = Listener(cache)
    cache.apply(_event(EventType.ADDED, _widget("b", 2)))
    cache.apply(_event(EventType.MODIFIED, _widget("a", 3)))
    cache.apply(_event(EventType.DELETED, _widget("a", 4)))
    listener.unsubscribe()
    cache.apply(_event(EventType.ADDED, _widget("c", 5)))

    assert listener.lines == ["- > a@1", "- > b@2", "a@1 > a@3", "a@3 > -"]


def test_a_relist_delivers_only_the_difference() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_widget("gone", 1), _widget("same", 2), _widget("changed", 3)], "3")
    listener = Listener(cache)
    listener.lines.clear()

    cache.replace([_widget("same", 2), _widget("changed", 7), _widget("new", 6)], "8")

    assert sorted(listener.lines) == ["- > new@6", "changed@3 > changed@7", "gone@1 > -"]


def test_an_object_recreated_between_lists_is_delivered_with_both_states() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_widget("a", 1, uid="first")], "1")
    delivered: list[tuple[str, str]] = []
    cache.subscribe(lambda old, new: delivered.append((_uid(old), _uid(new))))

    cache.replace([_widget("a", 5, uid="second")], "5")

    assert delivered == [("", "first"), ("first", "second")]


def _uid(obj: Object | None) -> str:
    return obj.metadata.uid if obj is not None else ""


def test_a_revision_counts_as_seen_once_the_stream_has_passed_it() -> None:
    cache = Cache(WIDGETS)
    cache.replace([], "5")
    wanted = CacheExpectation("default", "a", resource_version="8")
    assert not cache.has_seen(wanted)

    cache.apply(_event(EventType.ADDED, _widget("other", 9)))

    assert cache.has_seen(wanted)


def test_a_bookmark_advances_the_seen_revision() -> None:
    cache = Cache(WIDGETS)
    cache.replace([], "5")
    seen: list[str] = []
    cache.when_seen(
        CacheExpectation("default", "a", resource_version="8"), lambda: seen.append("8")
    )
    cache.when_seen(
        CacheExpectation("default", "a", resource_version="20"), lambda: seen.append("20")
    )

    cache.apply(_event(EventType.BOOKMARK, _widget("", 12)))

    assert seen == ["8"]
    assert len(cache) == 0
    assert cache.resource_version == "12"


def test_non_numeric_revisions_are_compared_for_equality() -> None:
    cache = Cache(WIDGETS)
    metadata = ObjectMeta(name="a", namespace="default", resource_version="v-b")
    cache.replace([Object("example.com/v1", "Widget", metadata)], "v-c")

    assert cache.has_seen(CacheExpectation("default", "a", resource_version="v-b"))
    assert not cache.has_seen(CacheExpectation("default", "a", resource_version="v-a"))


def test_a_deletion_is_seen_when_it_is_deleted_replaced_or_deleting() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_widget("a", 1, uid="one")], "1")
    wanted = CacheExpectation("default", "a", deleted_uid="one")
    assert not cache.has_seen(wanted)

    cache.apply(_event(EventType.MODIFIED, _widget("a", 2, uid="two")))

    assert cache.has_seen(wanted)
    assert cache.has_seen(CacheExpectation("default", "b", deleted_uid="three"))


def test_what_a_live_read_found_is_not_undone_by_older_events() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_widget("a", 1), _widget("b", 2)], "2")

    cache.put_live(_widget("a", 10, color="live"))
    cache.drop_live("b", "default")
    cache.apply(_event(EventType.MODIFIED, _widget("a", 5)))
    cache.apply(_event(EventType.MODIFIED, _widget("b", 6)))
    cache.apply(_event(EventType.DELETED, _widget("a", 7)))

    assert [(o.name, o.metadata.resource_version) for o in cache.list()] == [("a", "10")]


def test_an_object_recreated_after_a_live_read_found_none_is_added() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_widget("b", 2, uid="old")], "2")
    cache.drop_live("b", "default")

    cache.apply(_event(EventType.DELETED, _widget("b", 3, uid="old")))
    cache.apply(_event(EventType.ADDED, _widget("b", 4, uid="new")))

    assert [o.metadata.uid for o in cache.list()] == ["new"]


def test_a_selector_decides_which_writes_are_awaited() -> None:
    cache = Cache(WIDGETS, label_selector="color=red")
    cache.replace([_widget("held", 1, color="red")], "1")

    assert cache.expects(_widget("new", 2, color="red"))
    assert cache.expects(_widget("held", 2, color="blue"))
    assert not cache.expects(_widget("other", 2, color="blue"))


def test_what_a_live_read_found_is_not_undone_by_a_list_from_before() -> None:
    cache = Cache(WIDGETS)
    cache.replace([_widget("a", 1)], "1")

    cache.put_live(_widget("b", 10))
    cache.put_live(_widget("a", 11, color="live"))
    cache.replace([_widget("a", 5)], "8")

    assert [(o.name, o.metadata.resource_version) for o in cache.list()] == [
        ("a", "11"),
        ("b", "10"),
    ]


def test_a_live_read_takes_out_what_a_selector_does_not_match_any_more() -> None:
    cache = Cache(WIDGETS, label_selector="color=red")
    cache.replace([_widget("a", 1, color="red")], "1")

    cache.put_live(_widget("a", 3, color="blue"))
    cache.put_live(_widget("b", 4, color="blue"))

    assert cache.list() == []


def test_a_list_of_a_server_restored_from_a_backup_is_accepted() -> None:
    """Its revisions are lower than those seen before; the list is the whole state."""
    cache = Cache(WIDGETS)
    cache.replace([_widget("a", 90, color="new"), _widget("b", 95)], "100")
    listener = Listener(cache)
    listener.lines.clear()

    cache.replace([_widget("a", 40, color="old")], "50")
    cache.apply(_event(EventType.ADDED, _widget("c", 51)))

    assert [(o.name, o.metadata.resource_version) for o in cache.list()] == [
        ("a", "40"),
        ("c", "51"),
    ]
    assert listener.lines == ["a@90 > a@40", "b@95 > -", "- > c@51"]


def test_an_event_without_a_revision_keeps_the_seen_revision() -> None:
    cache = Cache(WIDGETS)
    cache.replace([], "5")
    metadata = ObjectMeta(name="a", namespace="default", uid="u")

    cache.apply(_event(EventType.ADDED, Object("example.com/v1", "Widget", metadata)))

    assert (cache.resource_version, cache.revision) == ("5", 5)
    assert [o.name for o in cache.list()] == ["a"]


def test_an_object_without_index_keys_is_counted_each_time_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = Cache(WIDGETS)
    cache.add_index("color", lambda obj: [obj.metadata.labels["color"]])
    cache.replace([_widget("plain", 1)], "1")
    cache.apply(_event(EventType.MODIFIED, _widget("plain", 2)))
    cache.apply(_event(EventType.MODIFIED, _widget("plain", 3, color="red")))

    assert [o.name for o in cache.by_index("color", "red")] == ["plain"]
    assert [record.message for record in caplog.records] == ["object left out of an index"]
    assert cache._indexes["color"].failures >= 2
