"""Live reads before a decision: does an object exist, and may one be created under it."""

from __future__ import annotations

import pytest

from datum_compute.api.meta import Object, owner_reference
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.runtime.live_reads import find_live, has_live, is_live
from datum_compute.runtime.result import Waiting
from datum_compute.runtime.writes.create import create_if_absent, create_or_wait, create_owned
from datum_compute.runtime.writes.ownership import ensure_owner
from tests.support.apiserver.widgets import WIDGETS, Caller, widget, widget_server
from tests.support.runtime.fake_plane import FakePlane


async def a_widget(caller: Caller, name: str, **metadata: object) -> Object:
    return await caller.client.create(WIDGETS, widget(name, **metadata), "default")


def body(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {}}


async def test_an_object_is_live_by_its_uid_until_it_is_deleted() -> None:
    async with widget_server() as caller:
        client = caller.client
        first = await a_widget(caller, "a", finalizers=["example.com/hold"])
        assert await is_live(client, WIDGETS, first)
        assert await has_live(client, WIDGETS, "default")

        await client.delete(WIDGETS, "a", "default")
        assert await find_live(client, WIDGETS, "a", "default") is not None
        assert not await is_live(client, WIDGETS, first), "it is being deleted"

        change = merge({"metadata": {"finalizers": None}})
        await client.patch(WIDGETS, "a", change, "default")
        assert await find_live(client, WIDGETS, "a", "default") is None
        assert not await has_live(client, WIDGETS, "default")

        await a_widget(caller, "a")
        assert not await is_live(client, WIDGETS, first), "a successor has the name"


async def test_a_missing_answer_does_not_prove_absence() -> None:
    plane = FakePlane()
    with plane.down(), pytest.raises(errors.TransportFailure):
        await find_live(plane, WIDGETS, "a", "default")


async def test_an_existing_name_waits_for_the_cache_or_is_left_alone() -> None:
    async with widget_server() as caller:
        created = await create_or_wait(caller.client, WIDGETS, body("a"), "default")

        with pytest.raises(Waiting) as waiting:
            await create_or_wait(caller.client, WIDGETS, body("a"), "default", delay=0.5)
        assert waiting.value.delay == 0.5
        assert await create_if_absent(caller.client, WIDGETS, body("a"), "default") is None
        assert await is_live(caller.client, WIDGETS, created)


async def test_nothing_is_created_under_an_owner_that_is_gone_or_replaced() -> None:
    async with widget_server() as caller:
        client = caller.client
        owner = await a_widget(caller, "owner")
        await client.delete(WIDGETS, "owner", "default")

        assert await create_owned(client, WIDGETS, body("child"), WIDGETS, owner) is None
        successor = await a_widget(caller, "owner")
        assert await create_owned(client, WIDGETS, body("child"), WIDGETS, owner) is None
        assert not await caller.exists("child")

        child = await create_owned(client, WIDGETS, body("child"), WIDGETS, successor)
        assert child is not None
        manager = child.metadata.controller()
        assert manager is not None
        assert manager.uid == successor.metadata.uid
        with pytest.raises(Waiting):
            await create_owned(client, WIDGETS, body("child"), WIDGETS, successor)


async def test_an_adopted_object_has_one_owner() -> None:
    async with widget_server() as caller:
        client = caller.client
        old, new = await a_widget(caller, "old"), await a_widget(caller, "new")
        child = await a_widget(
            caller, "child", ownerReferences=[owner_reference(old, controller=False)]
        )

        adopted = await ensure_owner(client, WIDGETS, child, new, controller=True)
        again = await ensure_owner(client, WIDGETS, adopted, new, controller=True)

        assert [owner.uid for owner in adopted.metadata.owner_references] == [new.metadata.uid]
        assert again is adopted
        with pytest.raises(errors.Conflict):
            await ensure_owner(client, WIDGETS, child, await a_widget(caller, "x"), controller=True)
