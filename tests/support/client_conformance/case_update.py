"""Replacing objects."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.client import errors
from tests.support.client_conformance.fixture import (
    WIDGETS,
    ConformanceFixture,
    body_of,
    causes,
    content,
    revision_of,
)


async def an_update_replaces_the_spec_and_counts_it(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3, "color": "red"})
    body = body_of(world, "one", {"size": 4}, resourceVersion=made.metadata.resource_version)

    changed = await world.client.update(WIDGETS, body)

    assert content(changed.spec) == {"size": 4}
    assert changed.metadata.generation == 2
    assert revision_of(changed) > revision_of(made)
    assert changed.metadata.uid == made.metadata.uid
    assert changed.metadata.creation_timestamp == made.metadata.creation_timestamp
    assert (await world.get("one")).metadata == changed.metadata


async def an_object_read_can_be_put_back(world: ConformanceFixture) -> None:
    await world.create("one", {"size": 3}, labels={"a": "b"})
    read = await world.get("one")

    put = await world.client.update(WIDGETS, read)

    assert put.metadata == read.metadata
    assert content(put.spec) == {"size": 3}


async def an_update_that_changes_nothing_keeps_the_revision(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3})
    version = made.metadata.resource_version

    same = await world.client.update(
        WIDGETS, body_of(world, "one", {"size": 3}, resourceVersion=version)
    )

    assert same.metadata.resource_version == version
    assert same.metadata.generation == 1


async def an_update_of_metadata_is_not_a_new_generation(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3})
    version = made.metadata.resource_version

    changed = await world.client.update(
        WIDGETS,
        body_of(
            world, "one", {"size": 3}, resourceVersion=version, labels={"a": "b"}, annotations={}
        ),
    )

    assert revision_of(changed) > revision_of(made)
    assert changed.metadata.generation == 1
    assert changed.metadata.labels == {"a": "b"}


async def an_update_must_name_its_revision(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.Invalid) as caught:
        await world.client.update(WIDGETS, body_of(world, "one", {"size": 4}))

    assert caught.value.code == 422
    assert causes(caught.value) == {("metadata.resourceVersion", "FieldValueInvalid")}


async def a_stale_update_conflicts(world: ConformanceFixture) -> None:
    made = await world.create("one")
    await world.patch("one", {"spec": {"size": 2}})

    with pytest.raises(errors.Conflict) as caught:
        await world.client.update(
            WIDGETS,
            body_of(world, "one", {"size": 3}, resourceVersion=made.metadata.resource_version),
        )

    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert "the object has been modified" in caught.value.message
    assert content((await world.get("one")).spec) == {"size": 2}


async def of_two_updates_from_one_reading_one_wins(world: ConformanceFixture) -> None:
    version = (await world.create("one")).metadata.resource_version
    first = body_of(world, "one", {"size": 2}, resourceVersion=version)
    second = body_of(world, "one", {"size": 3}, resourceVersion=version)

    await world.client.update(WIDGETS, first)
    with pytest.raises(errors.Conflict):
        await world.client.update(WIDGETS, second)

    assert content((await world.get("one")).spec) == {"size": 2}


async def an_update_of_another_uid_conflicts(world: ConformanceFixture) -> None:
    made = await world.create("one")

    with pytest.raises(errors.Conflict):
        await world.client.update(
            WIDGETS,
            body_of(
                world,
                "one",
                {"size": 3},
                resourceVersion=made.metadata.resource_version,
                uid="00000000-0000-0000-0000-000000000000",
            ),
        )


async def an_update_of_nothing_is_not_found(world: ConformanceFixture) -> None:
    with pytest.raises(errors.NotFound):
        await world.client.update(WIDGETS, body_of(world, "one", {}, resourceVersion="1"))


async def an_update_is_validated(world: ConformanceFixture) -> None:
    made = await world.create("one")

    with pytest.raises(errors.Invalid) as caught:
        await world.client.update(
            WIDGETS,
            body_of(world, "one", {"size": 99}, resourceVersion=made.metadata.resource_version),
        )

    assert causes(caught.value) == {("spec.size", "FieldValueInvalid")}
    assert (await world.get("one")).metadata == made.metadata


async def an_update_leaves_status_alone(world: ConformanceFixture) -> None:
    await world.create("one")
    reported = await world.patch("one", {"status": {"phase": "Running"}}, subresource="status")

    body = body_of(world, "one", {"size": 2}, resourceVersion=reported.metadata.resource_version)
    dropped = await world.client.update(WIDGETS, body)
    body = body_of(world, "one", {"size": 3}, resourceVersion=dropped.metadata.resource_version)
    changed = await world.client.update(WIDGETS, {**body, "status": {"phase": "Waiting"}})

    assert content(dropped.status) == content(changed.status) == {"phase": "Running"}


async def of_many_who_count_on_one_object_none_is_lost(world: ConformanceFixture) -> None:
    """Each reads, adds one and writes with the revision it read, again after a conflict."""
    await world.create("counter", {"options": {"count": "0"}})
    conflicts = 0

    async def add_one() -> None:
        nonlocal conflicts
        while True:
            read = await world.get("counter")
            count = int(content(read.spec)["options"]["count"])
            change = {
                "metadata": {"resourceVersion": read.metadata.resource_version},
                "spec": {"options": {"count": str(count + 1)}},
            }
            try:
                await world.patch("counter", change)
                return
            except errors.Conflict:
                conflicts += 1

    await asyncio.gather(*(add_one() for _ in range(8)))

    assert content((await world.get("counter")).spec)["options"] == {"count": "8"}
    assert conflicts > 0
