"""Watching: what comes, in which order, and how it ends."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api import core
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import EventType
from tests.support.client_conformance.fixture import (
    EVENT_TIMEOUT,
    WIDGETS,
    ConformanceFixture,
    content,
    next_event,
    next_events,
    revision_of,
)


async def a_watch_from_a_list_sees_what_follows(world: ConformanceFixture) -> None:
    await world.create("before")
    since = await world.revision()

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await world.create("one")
        await world.patch("one", {"spec": {"size": 2}})
        await world.delete("one")

        assert await next_events(events, 3) == [
            ("ADDED", "one"),
            ("MODIFIED", "one"),
            ("DELETED", "one"),
        ]


async def a_watch_replays_what_it_missed(world: ConformanceFixture) -> None:
    since = await world.revision()
    await world.create("one")
    await world.patch("one", {"spec": {"size": 2}})
    await world.delete("one")
    await world.create("two")

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        assert await next_events(events, 4) == [
            ("ADDED", "one"),
            ("MODIFIED", "one"),
            ("DELETED", "one"),
            ("ADDED", "two"),
        ]


async def a_watch_from_an_object_s_revision_starts_after_it(world: ConformanceFixture) -> None:
    one = await world.create("one")
    await world.create("two")

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=one.metadata.resource_version
    ) as events:
        assert await next_events(events, 1) == [("ADDED", "two")]


async def a_watch_without_a_revision_begins_with_what_is_there(world: ConformanceFixture) -> None:
    await world.create_many("a", "b")
    latest = await world.patch("a", {"spec": {"size": 2}})

    async with world.client.watch(WIDGETS, world.namespace) as events:
        seen: dict[str, int] = {}
        # A server may begin with a slightly older state and let the changes follow.
        while len(seen) < 2 or seen["a"] < revision_of(latest):
            event = await next_event(events)
            assert (event.type == EventType.ADDED) == (event.object.name not in seen)
            seen[event.object.name] = revision_of(event.object)
        await world.delete("a")

        assert await next_events(events, 1) == [("DELETED", "a")]


async def a_watch_from_zero_begins_with_what_is_there(world: ConformanceFixture) -> None:
    await world.create("one")

    async with world.client.watch(WIDGETS, world.namespace, resource_version="0") as events:
        assert await next_events(events, 1) == [("ADDED", "one")]


async def an_event_carries_the_object_as_it_became(world: ConformanceFixture) -> None:
    since = await world.revision()
    made = await world.create("one", {"size": 3, "options": {"a": "b"}}, labels={"x": "y"})
    changed = await world.patch("one", {"status": {"phase": "Running"}}, subresource="status")

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        first, second = await next_event(events), await next_event(events)

    assert first.object.metadata == made.metadata
    assert content(first.object.spec) == content(made.spec)
    assert (first.object.api_version, first.object.kind) == (made.api_version, made.kind)
    assert second.type == EventType.MODIFIED
    assert second.object.metadata == changed.metadata
    assert content(second.object.status) == {"phase": "Running"}


async def a_deletion_carries_the_last_state(world: ConformanceFixture) -> None:
    since = await world.revision()
    await world.create("one", {"size": 3}, labels={"x": "y"})
    last = await world.patch("one", {"spec": {"size": 5}})
    await world.delete("one")

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await next_events(events, 2)
        deleted = await next_event(events)

    assert deleted.type == EventType.DELETED
    assert content(deleted.object.spec) == {"size": 5}
    assert deleted.object.metadata.labels == {"x": "y"}
    assert deleted.object.metadata.uid == last.metadata.uid
    # The revision of the deletion itself, so that a watch can go on from there.
    assert revision_of(deleted.object) > revision_of(last)


async def a_held_deletion_is_a_change_and_then_a_deletion(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=["example.com/hold"])
    since = await world.revision()

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await world.delete("one")
        await world.patch("one", {"metadata": {"finalizers": None}})
        held, gone = await next_event(events), await next_event(events)

    assert (held.type, gone.type) == (EventType.MODIFIED, EventType.DELETED)
    assert held.object.metadata.deleting
    assert held.object.metadata.finalizers == ("example.com/hold",)


async def what_changes_nothing_is_no_event(world: ConformanceFixture) -> None:
    await world.create("one", {"size": 3})
    since = await world.revision()

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await world.patch("one", {"spec": {"size": 3}})
        await world.patch("one", {"spec": {"size": 4}}, dry_run=True)
        await world.patch("one", {"spec": {"size": 5}})
        event = await next_event(events)

    assert content(event.object.spec) == {"size": 5}


async def revisions_rise_from_event_to_event(world: ConformanceFixture) -> None:
    since = await world.revision()
    await world.create_many("a", "b", "c")
    await world.patch("a", {"spec": {"size": 2}})
    await world.delete("b")

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        found = [revision_of((await next_event(events)).object) for _ in range(5)]

    assert found == sorted(set(found))
    assert found[0] > int(since)


async def a_watch_can_go_on_from_any_event(world: ConformanceFixture) -> None:
    since = await world.revision()
    await world.create_many("a", "b", "c", "d")
    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await next_event(events)
        second = await next_event(events)

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=second.object.metadata.resource_version
    ) as events:
        assert await next_events(events, 2) == [("ADDED", "c"), ("ADDED", "d")]


async def a_watch_resumed_again_and_again_misses_and_repeats_nothing(
    world: ConformanceFixture,
) -> None:
    since = await world.revision()
    names = [f"w{number:02}" for number in range(12)]
    seen: list[tuple[str, str]] = []

    for start in range(0, 12, 3):
        await world.create_many(*names[start : start + 2])
        async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
            await world.create(names[start + 2])
            for _ in range(3):
                event = await next_event(events)
                seen.append((event.type.value, event.object.name))
                since = event.object.metadata.resource_version

    assert seen == [("ADDED", name) for name in names]


async def an_abandoned_reader_resumes_where_it_was_cut(world: ConformanceFixture) -> None:
    """The reading task is cancelled between two events, as a process would be."""
    since = await world.revision()
    seen: list[str] = []
    reached = asyncio.Event()

    async def follow() -> None:
        nonlocal since
        async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
            async for event in events:
                if event.type != EventType.BOOKMARK:
                    seen.append(event.object.name)
                since = event.object.metadata.resource_version
                if len(seen) == 2:
                    reached.set()

    task = asyncio.ensure_future(follow())
    await world.create_many("a", "b")
    async with asyncio.timeout(EVENT_TIMEOUT):
        await reached.wait()
    task.cancel()
    await asyncio.wait([task])
    await world.create_many("c", "d")

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        assert await next_events(events, 2) == [("ADDED", "c"), ("ADDED", "d")]
    assert seen == ["a", "b"]


async def a_list_and_its_watch_leave_no_gap(world: ConformanceFixture) -> None:
    """Writers are at work before, between and after."""
    writers = [asyncio.ensure_future(world.create(f"w{number:02}")) for number in range(30)]
    await asyncio.wait(writers[:10])
    page = await world.client.list(WIDGETS, world.namespace)
    names = [item.name for item in page.items]

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=page.resource_version
    ) as events:
        while len(names) < 30:
            names.append((await next_event(events)).object.name)
    await asyncio.wait(writers)

    assert sorted(names) == [f"w{number:02}" for number in range(30)]


async def a_watch_from_the_first_page_sees_all_that_came_since(world: ConformanceFixture) -> None:
    await world.create_many("a", "b", "c")
    first = await world.client.list(WIDGETS, world.namespace, limit=1)
    await world.delete("c")
    await world.create("d")

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=first.resource_version
    ) as events:
        assert await next_events(events, 2) == [("DELETED", "c"), ("ADDED", "d")]


async def no_event_of_many_is_lost(world: ConformanceFixture) -> None:
    since = await world.revision()
    names = [f"w{number:03}" for number in range(60)]

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await asyncio.gather(*(world.create(name) for name in names))
        found = await next_events(events, len(names))

    assert sorted(found) == [("ADDED", name) for name in names]


async def all_watchers_see_the_same_order(world: ConformanceFixture) -> None:
    since = await world.revision()
    names = [f"w{number:02}" for number in range(20)]

    async with (
        world.client.watch(WIDGETS, world.namespace, resource_version=since) as first,
        world.client.watch(WIDGETS, world.namespace, resource_version=since) as second,
    ):
        await asyncio.gather(*(world.create(name) for name in names))
        seen = await next_events(first, len(names))
        assert await next_events(second, len(names)) == seen

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as late:
        assert await next_events(late, len(names)) == seen


async def a_label_selector_turns_changes_into_comings_and_goings(world: ConformanceFixture) -> None:
    since = await world.revision()

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=since, label_selector="tier=web"
    ) as events:
        await world.create("one", labels={"tier": "db"})
        await world.patch("one", {"metadata": {"labels": {"tier": "web"}}})
        await world.patch("one", {"spec": {"size": 2}})
        left = await world.patch("one", {"metadata": {"labels": {"tier": "db"}}})
        await world.patch("one", {"spec": {"size": 3}})
        await world.delete("one")
        await world.create("two", labels={"tier": "web"})

        assert await next_events(events, 2) == [("ADDED", "one"), ("MODIFIED", "one")]
        gone = await next_event(events)
        assert gone.type == EventType.DELETED
        # The state it had while it was selected, at the revision at which it left.
        assert gone.object.metadata.labels == {"tier": "web"}
        assert gone.object.metadata.resource_version == left.metadata.resource_version
        assert await next_events(events, 1) == [("ADDED", "two")]


async def a_label_selector_holds_for_what_is_there_too(world: ConformanceFixture) -> None:
    await world.create("one", labels={"tier": "db"})
    await world.create("two", labels={"tier": "web"})

    async with world.client.watch(WIDGETS, world.namespace, label_selector="tier=web") as events:
        assert await next_events(events, 1) == [("ADDED", "two")]


async def a_field_selector_watches_one_object(world: ConformanceFixture) -> None:
    await world.create_many("one", "two")
    since = await world.revision()

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=since, field_selector="metadata.name=two"
    ) as events:
        await world.patch("one", {"spec": {"size": 2}})
        await world.patch("two", {"spec": {"size": 2}})

        assert await next_events(events, 1) == [("MODIFIED", "two")]


async def a_declared_field_turns_changes_into_comings_and_goings(world: ConformanceFixture) -> None:
    since = await world.revision()

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=since, field_selector="spec.color=red"
    ) as events:
        await world.create("one", {"color": "red"})
        await world.patch("one", {"spec": {"color": "blue"}})
        await world.patch("one", {"spec": {"color": "red"}})

        assert await next_events(events, 3) == [
            ("ADDED", "one"),
            ("DELETED", "one"),
            ("ADDED", "one"),
        ]


async def a_watch_keeps_to_its_namespace(world: ConformanceFixture) -> None:
    since = await world.revision()

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await world.client.create(WIDGETS, {"metadata": {"name": "far"}}, world.other_namespace)
        await world.create("near")

        assert await next_events(events, 1) == [("ADDED", "near")]


async def a_watch_over_all_namespaces_sees_each(world: ConformanceFixture) -> None:
    since = await world.revision()

    async with world.client.watch(WIDGETS, resource_version=since) as events:
        await world.client.create(WIDGETS, {"metadata": {"name": "far"}}, world.other_namespace)
        await world.create("near")

        assert await next_events(events, 2) == [("ADDED", "far"), ("ADDED", "near")]


async def a_watch_sees_only_its_kind(world: ConformanceFixture) -> None:
    since = await world.revision()
    body = {"metadata": {"name": "settings"}, "data": {"a": "1"}}

    async with (
        world.client.watch(WIDGETS, world.namespace, resource_version=since) as widgets,
        world.client.watch(core.CONFIG_MAPS, world.namespace, resource_version=since) as settings,
    ):
        await world.client.create(core.CONFIG_MAPS, body, world.namespace)
        await world.create("one")

        assert await next_events(widgets, 1) == [("ADDED", "one")]
        event = await next_event(settings)
        assert (event.type, event.object.name) == (EventType.ADDED, "settings")
        assert content(event.object.data) == {"a": "1"}


async def a_watch_ends_when_its_time_is_up(world: ConformanceFixture) -> None:
    loop = asyncio.get_running_loop()
    since = await world.revision()
    started = loop.time()

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=since, timeout_seconds=1
    ) as events:
        found = [event async for event in events if event.type != EventType.BOOKMARK]

    assert found == []
    assert 0.9 <= loop.time() - started < 10


async def far_away(world: ConformanceFixture, name: str) -> Object:
    """A change that a watch of the first namespace does not see."""
    return await world.client.create(WIDGETS, {"metadata": {"name": name}}, world.other_namespace)


async def a_bookmark_moves_the_revision_of_a_silent_watch(world: ConformanceFixture) -> None:
    since = await world.revision()

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=since, timeout_seconds=4
    ) as events:
        unseen = await far_away(world, "far")
        found = [event async for event in events]

    assert {event.type for event in found} == {EventType.BOOKMARK}
    assert revision_of(found[-1].object) >= revision_of(unseen)
    assert found[-1].object.name == ""


async def bookmarks_come_only_to_who_asks(world: ConformanceFixture) -> None:
    since = await world.revision()

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=since, timeout_seconds=4, bookmarks=False
    ) as events:
        await far_away(world, "far")
        assert [event async for event in events] == []


async def a_watch_can_go_on_from_a_bookmark(world: ConformanceFixture) -> None:
    await world.create("one")
    since = await world.revision()
    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=since, timeout_seconds=4
    ) as events:
        await far_away(world, "far")
        bookmark = [event async for event in events][-1]

    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=bookmark.object.metadata.resource_version
    ) as events:
        await world.create("two")
        assert await next_events(events, 1) == [("ADDED", "two")]


async def a_watch_of_a_forgotten_revision_is_expired(world: ConformanceFixture) -> None:
    await world.create("one")
    await world.target.forget_history()

    with pytest.raises(errors.Expired) as caught:
        async with world.client.watch(WIDGETS, world.namespace, resource_version="1") as events:
            await next_event(events)

    assert (caught.value.code, caught.value.reason) == (410, "Expired")


async def after_expiry_a_new_list_and_watch_work(world: ConformanceFixture) -> None:
    await world.create("one")
    await world.target.forget_history()

    found = await world.client.list(WIDGETS, world.namespace)
    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=found.resource_version
    ) as events:
        await world.create("two")
        assert await next_events(events, 1) == [("ADDED", "two")]


async def a_watch_of_an_unknown_kind_is_not_served(world: ConformanceFixture) -> None:
    unknown = Resource("unknown.example.com", "v1", "things", "Thing")

    with pytest.raises(errors.NotServed):
        async with world.client.watch(unknown, world.namespace):
            raise AssertionError("the watch opened")


async def a_watch_with_a_bad_selector_is_refused(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid):
        async with world.client.watch(WIDGETS, world.namespace, label_selector="a b"):
            raise AssertionError("the watch opened")
    with pytest.raises(errors.Invalid):
        async with world.client.watch(WIDGETS, world.namespace, field_selector="spec.size=1"):
            raise AssertionError("the watch opened")


async def a_watch_with_a_bad_revision_is_refused(world: ConformanceFixture) -> None:
    with pytest.raises(errors.ClientError):
        async with world.client.watch(
            WIDGETS, world.namespace, resource_version="nonsense"
        ) as events:
            await next_event(events)


async def a_watch_cancelled_while_it_opens_leaves_the_client_usable(
    world: ConformanceFixture,
) -> None:
    since = await world.revision()

    async def opened() -> None:
        async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
            await anext(events)

    for turns in range(12):
        task = asyncio.ensure_future(opened())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
        await world.create("one")
        assert await next_events(events, 1) == [("ADDED", "one")]


async def many_watches_can_be_opened_and_left(world: ConformanceFixture) -> None:
    since = await world.revision()

    for _ in range(20):
        async with world.client.watch(WIDGETS, world.namespace, resource_version=since):
            pass  # left unread
        async with world.client.watch(WIDGETS, world.namespace) as events:
            del events

    await world.create("one")
    assert await world.names() == ["one"]


async def a_watch_left_by_an_error_leaves_the_client_usable(world: ConformanceFixture) -> None:
    since = await world.revision()
    await world.create("one")

    with pytest.raises(KeyError):
        async with world.client.watch(WIDGETS, world.namespace, resource_version=since) as events:
            async for _ in events:
                raise KeyError

    assert await world.names() == ["one"]


async def a_cancelled_watch_leaves_the_client_usable(world: ConformanceFixture) -> None:
    since = await world.revision()

    with pytest.raises(TimeoutError):
        async with (
            asyncio.timeout(0.2),
            world.client.watch(WIDGETS, world.namespace, resource_version=since) as events,
        ):
            async for event in events:
                assert event.type == EventType.BOOKMARK

    await world.create("one")
    assert await world.names() == ["one"]
