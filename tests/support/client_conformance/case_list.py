"""Listing: scopes, selectors and pages."""

from __future__ import annotations

import pytest

from datum_compute.api import core
from datum_compute.client import errors
from datum_compute.client.protocol import EventType
from tests.support.client_conformance.fixture import GROUP, WIDGETS, ConformanceFixture, next_event


async def a_list_holds_one_namespace_in_order(world: ConformanceFixture) -> None:
    await world.create_many("c", "a", "b")
    await world.client.create(WIDGETS, {"metadata": {"name": "far"}}, world.other_namespace)

    assert await world.names() == ["a", "b", "c"]


async def a_list_over_all_namespaces_holds_each(world: ConformanceFixture) -> None:
    await world.create("near")
    await world.client.create(WIDGETS, {"metadata": {"name": "far"}}, world.other_namespace)

    found = await world.client.list(WIDGETS)

    keys = [(item.namespace, item.name) for item in found.items]
    assert (world.namespace, "near") in keys
    assert (world.other_namespace, "far") in keys


async def an_empty_list_has_a_revision(world: ConformanceFixture) -> None:
    found = await world.client.list(WIDGETS, world.namespace)

    assert found.items == []
    assert int(found.resource_version) > 0
    assert found.continue_token == ""


async def a_list_in_an_absent_namespace_is_empty(world: ConformanceFixture) -> None:
    found = await world.client.list(WIDGETS, "no-such-namespace")

    assert found.items == []


async def items_know_their_kind(world: ConformanceFixture) -> None:
    await world.create("one")
    body = {"metadata": {"name": "settings"}, "data": {"a": "1"}}
    await world.client.create(core.CONFIG_MAPS, body, world.namespace)

    widgets = await world.client.list(WIDGETS, world.namespace)
    settings = await world.client.list(core.CONFIG_MAPS, world.namespace)

    assert [(i.api_version, i.kind) for i in widgets.items] == [(f"{GROUP}/v1", "Widget")]
    assert ("v1", "ConfigMap", "settings") in [
        (i.api_version, i.kind, i.name) for i in settings.items
    ]


async def a_kind_that_is_read_without_content_has_metadata_alone(
    world: ConformanceFixture,
) -> None:
    body = {"metadata": {"name": "settings", "labels": {"a": "b"}}, "data": {"a": "1"}}
    made = await world.client.create(core.CONFIG_MAPS, body, world.namespace)
    without = core.CONFIG_MAPS.metadata

    found = [await world.client.get(without, "settings", world.namespace)]
    listed = await world.client.list(without, world.namespace, label_selector="a=b")
    found += listed.items
    async with world.client.watch(without, world.namespace, label_selector="a=b") as events:
        found.append((await next_event(events)).object)

    assert [each.metadata.uid for each in found] == [made.metadata.uid] * 3
    assert [each.metadata.labels for each in found] == [{"a": "b"}] * 3
    assert not any(each.data or each.extra for each in found)


async def a_list_is_not_older_than_the_last_write(world: ConformanceFixture) -> None:
    made = await world.create("one")
    changed = await world.patch("one", {"spec": {"size": 2}})

    found = await world.client.list(WIDGETS, world.namespace)

    assert [item.metadata.resource_version for item in found.items] == [
        changed.metadata.resource_version
    ]
    assert int(found.resource_version) >= int(changed.metadata.resource_version)
    assert int(found.resource_version) > int(made.metadata.resource_version)


async def a_list_from_the_cache_is_allowed(world: ConformanceFixture) -> None:
    await world.create("one")

    found = await world.client.list(WIDGETS, world.namespace, resource_version="0")

    assert int(found.resource_version) > 0


async def label_selectors_choose(world: ConformanceFixture) -> None:
    await world.create("a", labels={"tier": "web", "size": "s"})
    await world.create("b", labels={"tier": "db"})
    await world.create("c", labels={"tier": "web", "size": "l"})
    await world.create("d")

    for selector, expected in (
        ("tier=web", "ac"),
        ("tier==web", "ac"),
        ("tier!=web", "bd"),
        ("tier in (web,db)", "abc"),
        ("tier notin (web)", "bd"),
        ("tier", "abc"),
        ("!tier", "d"),
        ("tier=web,size!=s", "c"),
        ("tier=web,size in (s, l)", "ac"),
        ("size", "ac"),
        ("tier=none", ""),
    ):
        assert "".join(await world.names(label_selector=selector)) == expected, selector


async def a_label_selector_has_a_form(world: ConformanceFixture) -> None:
    for selector in ("a b", "tier in web", "=x", "tier=not ok"):
        with pytest.raises(errors.Invalid) as caught:
            await world.names(label_selector=selector)
        assert caught.value.code == 400


async def field_selectors_choose(world: ConformanceFixture) -> None:
    await world.create("a", {"color": "red"})
    await world.create("b", {"color": "blue"})
    await world.create("c")

    for selector, expected in (
        ("metadata.name=b", "b"),
        ("metadata.name!=b", "ac"),
        (f"metadata.namespace={world.namespace}", "abc"),
        ("spec.color=red", "a"),
        ("spec.color!=red", "bc"),
        ("spec.color=red,metadata.name=a", "a"),
        ("metadata.name=none", ""),
    ):
        assert "".join(await world.names(field_selector=selector)) == expected, selector


async def only_declared_fields_can_be_selected(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.names(field_selector="spec.size=1")

    assert caught.value.code == 400
    assert "field label not supported: spec.size" in caught.value.message


async def pages_make_the_whole(world: ConformanceFixture) -> None:
    await world.create_many(*(f"w{number}" for number in range(7)))

    names, sizes, revisions, remaining, token = [], [], set(), [], ""
    while True:
        page = await world.client.list(WIDGETS, world.namespace, limit=3, continue_token=token)
        names += [item.name for item in page.items]
        sizes.append(len(page.items))
        revisions.add(page.resource_version)
        remaining.append(page.remaining)
        token = page.continue_token
        if not token:
            break

    assert names == [f"w{number}" for number in range(7)]
    assert sizes == [3, 3, 1]
    assert len(revisions) == 1
    assert remaining == [4, 1, None]


async def a_page_that_fits_exactly_is_the_last(world: ConformanceFixture) -> None:
    await world.create_many("a", "b", "c")

    page = await world.client.list(WIDGETS, world.namespace, limit=3)

    assert len(page.items) == 3
    assert page.continue_token == ""


async def pages_show_one_moment(world: ConformanceFixture) -> None:
    await world.create_many("a", "b", "c", "d")
    first = await world.client.list(WIDGETS, world.namespace, limit=2)

    await world.delete("c")
    await world.create("cc")
    await world.patch("d", {"spec": {"size": 9}})
    second = await world.client.list(
        WIDGETS, world.namespace, limit=2, continue_token=first.continue_token
    )

    assert [item.name for item in first.items] == ["a", "b"]
    assert [item.name for item in second.items] == ["c", "d"]
    assert b"9" not in bytes(second.items[1].spec)
    assert second.resource_version == first.resource_version
    assert await world.names() == ["a", "b", "cc", "d"]


async def pages_hold_together_while_everything_changes(world: ConformanceFixture) -> None:
    """The pages and a watch from their revision together give the present state."""
    names = [f"w{number:02}" for number in range(12)]
    await world.create_many(*names)
    known: dict[str, str] = {}
    seen, token, step = [], "", 0
    while True:
        page = await world.client.list(WIDGETS, world.namespace, limit=3, continue_token=token)
        seen += [item.name for item in page.items]
        known |= {item.name: item.metadata.resource_version for item in page.items}
        token = page.continue_token
        if not token:
            break
        # Before, within and after what the pages have passed.
        await world.create(f"a{step}")
        await world.create(f"w{step:02}-new")
        await world.create(f"z{step}")
        await world.delete(names[step])
        await world.delete(names[-1 - step])
        await world.patch(names[6], {"spec": {"size": step + 2}})
        step += 1

    assert seen == names
    async with world.client.watch(
        WIDGETS, world.namespace, resource_version=page.resource_version
    ) as events:
        for _ in range(step * 6):
            event = await next_event(events)
            known[event.object.name] = event.object.metadata.resource_version
            if event.type == EventType.DELETED:
                del known[event.object.name]
    now = await world.client.list(WIDGETS, world.namespace)
    assert known == {item.name: item.metadata.resource_version for item in now.items}


async def pages_go_over_all_namespaces(world: ConformanceFixture) -> None:
    await world.create_many("a", "b", labels={"world": world.namespace})
    for name in ("c", "d"):
        body = {"metadata": {"name": name, "labels": {"world": world.namespace}}}
        await world.client.create(WIDGETS, body, world.other_namespace)

    found, token = [], ""
    while True:
        page = await world.client.list(
            WIDGETS, label_selector=f"world={world.namespace}", limit=1, continue_token=token
        )
        found += [(item.namespace, item.name) for item in page.items]
        token = page.continue_token
        if not token:
            break

    # Which namespace comes first is the server's own affair.
    assert len(found) == 4
    assert sorted(found) == [
        (world.namespace, "a"),
        (world.namespace, "b"),
        (world.other_namespace, "c"),
        (world.other_namespace, "d"),
    ]


async def later_pages_still_list_what_was_deleted_since(world: ConformanceFixture) -> None:
    await world.create_many("a", "b", "c")
    first = await world.client.list(WIDGETS, world.namespace, limit=1)

    for name in ("a", "b", "c"):
        await world.delete(name)
    rest = await world.client.list(
        WIDGETS, world.namespace, limit=9, continue_token=first.continue_token
    )

    assert [item.name for item in rest.items] == ["b", "c"]
    assert await world.names() == []


async def pages_of_a_selection_do_not_count_the_rest(world: ConformanceFixture) -> None:
    await world.create_many("a", "b", "c", labels={"pick": "me"})
    await world.create_many("d", "e")

    first = await world.client.list(WIDGETS, world.namespace, limit=2, label_selector="pick=me")
    second = await world.client.list(
        WIDGETS,
        world.namespace,
        limit=2,
        label_selector="pick=me",
        continue_token=first.continue_token,
    )

    assert [item.name for item in first.items] == ["a", "b"]
    assert first.remaining is None
    assert [item.name for item in second.items] == ["c"]
    assert second.continue_token == ""


async def a_made_up_page_is_refused(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.client.list(WIDGETS, world.namespace, limit=2, continue_token="made-up")

    assert caught.value.code == 400


async def a_page_of_a_forgotten_moment_is_expired(world: ConformanceFixture) -> None:
    await world.create_many("a", "b", "c")
    first = await world.client.list(WIDGETS, world.namespace, limit=2)
    await world.patch("c", {"spec": {"size": 2}})

    await world.target.forget_history()

    with pytest.raises(errors.Expired) as caught:
        await world.client.list(
            WIDGETS, world.namespace, limit=2, continue_token=first.continue_token
        )
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert await world.names() == ["a", "b", "c"]


async def a_revision_still_to_come_is_unavailable(world: ConformanceFixture) -> None:
    future = str(int(await world.revision()) + 1_000_000)

    with pytest.raises(errors.Unavailable):
        await world.client.list(WIDGETS, world.namespace, resource_version=future)
