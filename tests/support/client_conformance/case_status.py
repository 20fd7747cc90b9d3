"""Status, written and read by itself."""

from __future__ import annotations

import pytest

from datum_compute.api import core
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from tests.support.client_conformance.fixture import (
    WIDGETS,
    ConformanceFixture,
    body_of,
    causes,
    content,
    get_subresource,
    revision_of,
)


async def a_status_patch_changes_status_alone(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3})

    changed = await world.patch(
        "one", {"spec": {"size": 9}, "status": {"phase": "Running"}}, subresource="status"
    )

    assert content(changed.status) == {"phase": "Running"}
    assert content(changed.spec) == {"size": 3}
    assert changed.metadata.generation == 1
    assert revision_of(changed) > revision_of(made)


async def a_plain_patch_leaves_status_alone(world: ConformanceFixture) -> None:
    await world.create("one")
    await world.patch("one", {"status": {"phase": "Running"}}, subresource="status")

    changed = await world.patch("one", {"spec": {"size": 2}, "status": {"phase": "Waiting"}})
    removed = await world.patch("one", {"status": None})

    assert content(changed.status) == content(removed.status) == {"phase": "Running"}
    assert content(changed.spec) == {"size": 2}


async def a_status_update_replaces_status_alone(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3})
    await world.patch("one", {"status": {"phase": "Waiting", "observed": 1}}, subresource="status")
    latest = await world.get("one")
    body = body_of(world, "one", {"size": 9}, resourceVersion=latest.metadata.resource_version)

    changed = await world.client.update(
        WIDGETS, {**body, "status": {"phase": "Running"}}, subresource="status"
    )

    assert content(changed.status) == {"phase": "Running"}
    assert content(changed.spec) == {"size": 3}
    assert changed.metadata.generation == made.metadata.generation


async def a_status_patch_leaves_metadata_alone(world: ConformanceFixture) -> None:
    await world.create("one", labels={"a": "b"})

    changed = await world.patch(
        "one",
        {
            "metadata": {"labels": {"a": "c"}, "finalizers": ["example.com/hold"]},
            "status": {"observed": 1},
        },
        subresource="status",
    )

    assert changed.metadata.labels == {"a": "b"}
    assert changed.metadata.finalizers == ()


async def a_status_patch_that_changes_nothing_keeps_the_revision(world: ConformanceFixture) -> None:
    await world.create("one")
    first = await world.patch("one", {"status": {"observed": 1}}, subresource="status")

    again = await world.patch("one", {"status": {"observed": 1}}, subresource="status")

    assert again.metadata == first.metadata


async def a_status_patch_is_validated(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.Invalid) as caught:
        await world.patch("one", {"status": {"phase": "Dancing"}}, subresource="status")

    assert causes(caught.value) == {("status.phase", "FieldValueNotSupported")}


async def conditions_are_unique_by_type(world: ConformanceFixture) -> None:
    await world.create("one")
    condition = {"type": "Ready", "status": "True"}

    with pytest.raises(errors.Invalid) as caught:
        await world.patch(
            "one", {"status": {"conditions": [condition, condition]}}, subresource="status"
        )

    assert causes(caught.value) == {("status.conditions[1]", "FieldValueDuplicate")}


async def a_stale_status_patch_conflicts(world: ConformanceFixture) -> None:
    made = await world.create("one")
    await world.patch("one", {"spec": {"size": 2}})

    with pytest.raises(errors.Conflict):
        await world.patch(
            "one",
            {
                "metadata": {"resourceVersion": made.metadata.resource_version},
                "status": {"observed": 1},
            },
            subresource="status",
        )


async def a_status_of_nothing_is_not_found(world: ConformanceFixture) -> None:
    with pytest.raises(errors.NotFound):
        await world.patch("one", {"status": {"observed": 1}}, subresource="status")


async def a_subresource_the_kind_lacks_is_not_there(world: ConformanceFixture) -> None:
    await world.create("one")
    body = {"metadata": {"name": "settings"}, "data": {"a": "1"}}
    await world.client.create(core.CONFIG_MAPS, body, world.namespace)

    # A custom kind speaks of the object, a built-in one of the path.
    with pytest.raises(errors.NotFound):
        await world.patch("one", {"spec": {"replicas": 1}}, subresource="scale")
    with pytest.raises(errors.NotServed):
        await world.client.patch(
            core.CONFIG_MAPS, "settings", merge({}), world.namespace, subresource="status"
        )


async def a_status_can_be_read_by_itself(world: ConformanceFixture) -> None:
    await world.create("one", {"size": 3})
    reported = await world.patch("one", {"status": {"phase": "Running"}}, subresource="status")

    read = await get_subresource(
        world.client, WIDGETS, "one", world.namespace, subresource="status"
    )

    assert read.metadata == reported.metadata
    assert content(read.status) == {"phase": "Running"}
    with pytest.raises(errors.NotFound):
        await get_subresource(world.client, WIDGETS, "no", world.namespace, subresource="status")
