"""Deleting objects, at once or through finalizers."""

from __future__ import annotations

import pytest

from datum_compute.client import errors
from datum_compute.client.protocol import json_patch
from tests.support.client_conformance.fixture import (
    WIDGETS,
    ConformanceFixture,
    causes,
    content,
    revision_of,
)

HOLD = ["example.com/hold"]


async def a_deleted_object_is_gone(world: ConformanceFixture) -> None:
    await world.create("one")

    await world.delete("one")

    assert not await world.exists("one")
    assert await world.names() == []


async def deleting_nothing_is_not_found(world: ConformanceFixture) -> None:
    with pytest.raises(errors.NotFound):
        await world.delete("one")


async def a_finalizer_holds_a_deleted_object(world: ConformanceFixture) -> None:
    made = await world.create("one", finalizers=HOLD)

    await world.delete("one")

    held = await world.get("one")
    assert held.metadata.deleting
    assert held.metadata.deletion_grace_period_seconds == 0
    assert held.metadata.generation == made.metadata.generation + 1
    assert revision_of(held) > revision_of(made)
    assert held.metadata.uid == made.metadata.uid


async def removing_the_last_finalizer_ends_it(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=["example.com/a", "example.com/b"])
    await world.delete("one")

    first = await world.patch("one", {"metadata": {"finalizers": ["example.com/b"]}})
    assert await world.exists("one")
    last = await world.patch("one", {"metadata": {"finalizers": None}})

    assert first.metadata.finalizers == ("example.com/b",)
    assert last.metadata.finalizers == ()
    assert not await world.exists("one")


async def removing_a_finalizer_by_json_patch_ends_it(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=HOLD)
    await world.delete("one")

    await world.patch(
        "one",
        json_patch(
            [
                {"op": "test", "path": "/metadata/finalizers/0", "value": HOLD[0]},
                {"op": "remove", "path": "/metadata/finalizers/0"},
            ]
        ),
    )

    assert not await world.exists("one")


async def removing_a_finalizer_by_update_ends_it(world: ConformanceFixture) -> None:
    await world.create("one", {"size": 3}, finalizers=HOLD)
    await world.delete("one")
    held = await world.get("one")

    await world.client.update(
        WIDGETS,
        {
            "metadata": {
                "name": "one",
                "namespace": world.namespace,
                "resourceVersion": held.metadata.resource_version,
            },
            "spec": {"size": 3},
        },
    )

    assert not await world.exists("one")


async def removing_a_finalizer_of_a_living_object_keeps_it(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=HOLD)

    await world.patch("one", {"metadata": {"finalizers": []}})

    assert not (await world.get("one")).metadata.deleting


async def deleting_again_changes_nothing(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=HOLD)
    await world.delete("one")
    held = await world.get("one")

    await world.delete("one")

    assert (await world.get("one")).metadata == held.metadata


async def a_finalizer_cannot_be_added_to_a_deleted_object(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=HOLD)
    await world.delete("one")

    with pytest.raises(errors.Invalid) as caught:
        await world.patch("one", {"metadata": {"finalizers": [*HOLD, "example.com/more"]}})

    assert caught.value.code == 422
    assert causes(caught.value) == {("metadata.finalizers", "FieldValueForbidden")}


async def a_deleted_object_can_still_be_changed(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=HOLD)
    await world.delete("one")

    changed = await world.patch("one", {"spec": {"size": 8}})
    reported = await world.patch("one", {"status": {"observed": 2}}, subresource="status")

    assert content(changed.spec) == {"size": 8}
    assert content(reported.status) == {"observed": 2}
    assert reported.metadata.deleting


async def deletion_cannot_be_taken_back(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=HOLD)
    await world.delete("one")

    await world.patch("one", {"metadata": {"deletionTimestamp": None}})

    assert (await world.get("one")).metadata.deleting


async def a_name_is_taken_until_the_finalizers_are_gone(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=HOLD)
    await world.delete("one")

    with pytest.raises(errors.AlreadyExists):
        await world.create("one")


async def a_name_used_again_is_another_object(world: ConformanceFixture) -> None:
    first = await world.create("one")
    await world.delete("one")

    second = await world.create("one")

    assert second.metadata.uid != first.metadata.uid
    assert revision_of(second) > revision_of(first)
    assert second.metadata.generation == 1


async def a_delete_of_another_uid_conflicts(world: ConformanceFixture) -> None:
    made = await world.create("one")

    with pytest.raises(errors.Conflict):
        await world.delete("one", uid="00000000-0000-0000-0000-000000000000")
    assert await world.exists("one")
    await world.delete("one", uid=made.metadata.uid)

    assert not await world.exists("one")


async def a_delete_of_another_revision_conflicts(world: ConformanceFixture) -> None:
    made = await world.create("one")
    changed = await world.patch("one", {"spec": {"size": 2}})

    with pytest.raises(errors.Conflict):
        await world.delete("one", resource_version=made.metadata.resource_version)
    assert await world.exists("one")
    await world.delete("one", resource_version=changed.metadata.resource_version)

    assert not await world.exists("one")


async def a_foreground_delete_keeps_the_finalizers_of_others(world: ConformanceFixture) -> None:
    await world.create("one", finalizers=HOLD)

    await world.delete("one", propagation="Foreground")

    held = await world.get("one")
    assert held.metadata.deleting
    assert set(held.metadata.finalizers) >= set(HOLD)
