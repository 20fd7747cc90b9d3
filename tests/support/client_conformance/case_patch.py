"""Patching objects: merge, JSON patch and strategic merge."""

from __future__ import annotations

import pytest

from datum_compute.api import core
from datum_compute.client import errors
from datum_compute.client.protocol import Patch, json_patch, merge
from tests.support.client_conformance.fixture import (
    ConformanceFixture,
    causes,
    content,
    revision_of,
    strategic_merge,
)


async def a_merge_patch_changes_what_it_names(world: ConformanceFixture) -> None:
    made = await world.create(
        "one",
        {"size": 3, "color": "red", "tags": ["a", "b"], "options": {"x": "1", "y": "2"}},
        labels={"keep": "1", "drop": "2"},
    )

    changed = await world.patch(
        "one",
        {
            "metadata": {"labels": {"drop": None, "new": "3"}},
            "spec": {"color": None, "tags": ["c"], "options": {"x": "9"}},
        },
    )

    assert content(changed.spec) == {"size": 3, "tags": ["c"], "options": {"x": "9", "y": "2"}}
    assert changed.metadata.labels == {"keep": "1", "new": "3"}
    assert changed.metadata.generation == 2
    assert revision_of(changed) > revision_of(made)


async def a_merge_patch_with_the_right_revision_is_done(world: ConformanceFixture) -> None:
    made = await world.create("one")

    changed = await world.patch(
        "one",
        {
            "metadata": {
                "resourceVersion": made.metadata.resource_version,
                "uid": made.metadata.uid,
            },
            "spec": {"size": 4},
        },
    )

    assert content(changed.spec) == {"size": 4}


async def a_merge_patch_with_a_stale_revision_conflicts(world: ConformanceFixture) -> None:
    made = await world.create("one")
    await world.patch("one", {"spec": {"size": 2}})

    with pytest.raises(errors.Conflict):
        await world.patch(
            "one",
            {
                "metadata": {"resourceVersion": made.metadata.resource_version},
                "spec": {"size": 3},
            },
        )

    assert content((await world.get("one")).spec) == {"size": 2}


async def a_merge_patch_with_another_uid_conflicts(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.Conflict):
        await world.patch(
            "one",
            {
                "metadata": {"uid": "00000000-0000-0000-0000-000000000000"},
                "spec": {"size": 3},
            },
        )


async def a_merge_patch_that_changes_nothing_keeps_the_revision(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3}, labels={"a": "b"})

    same = await world.patch("one", {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 3}})
    empty = await world.patch("one", {})

    assert same.metadata == empty.metadata == made.metadata


async def a_merge_patch_of_metadata_is_not_a_new_generation(world: ConformanceFixture) -> None:
    await world.create("one")

    changed = await world.patch("one", {"metadata": {"annotations": {"a": "b"}}})

    assert changed.metadata.generation == 1
    assert changed.metadata.annotations == {"a": "b"}


async def removing_a_defaulted_field_restores_the_default(world: ConformanceFixture) -> None:
    await world.create("one", {"size": 7})

    changed = await world.patch("one", {"spec": {"size": None}})

    assert content(changed.spec) == {"size": 1}


async def a_patch_of_nothing_is_not_found(world: ConformanceFixture) -> None:
    with pytest.raises(errors.NotFound):
        await world.patch("one", {"spec": {"size": 3}})


async def a_patch_is_validated(world: ConformanceFixture) -> None:
    made = await world.create("one")

    with pytest.raises(errors.Invalid) as caught:
        await world.patch("one", {"spec": {"color": "pink"}})

    assert causes(caught.value) == {("spec.color", "FieldValueNotSupported")}
    assert (await world.get("one")).metadata == made.metadata


async def a_merge_patch_must_be_an_object(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.Invalid) as caught:
        await world.patch("one", Patch("application/merge-patch+json", ["no"]))

    assert caught.value.code == 400


async def a_patch_cannot_rename(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.Invalid):
        await world.patch("one", {"metadata": {"name": "two"}})

    assert not await world.exists("two")


async def a_patch_cannot_move_to_another_namespace(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.Invalid):
        await world.patch("one", {"metadata": {"namespace": world.other_namespace}})


async def server_fields_survive_a_patch(world: ConformanceFixture) -> None:
    made = await world.create("one")

    changed = await world.patch(
        "one",
        {
            "metadata": {
                "creationTimestamp": None,
                "generation": 99,
                "uid": None,
            },
            "spec": {"size": 2},
        },
    )

    assert changed.metadata.creation_timestamp == made.metadata.creation_timestamp
    assert changed.metadata.generation == 2
    assert changed.metadata.uid == made.metadata.uid


async def a_patch_cannot_mark_as_deleted(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.Invalid) as caught:
        await world.patch("one", {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}})

    assert causes(caught.value) == {("metadata.deletionTimestamp", "FieldValueInvalid")}
    assert not (await world.get("one")).metadata.deleting


async def a_json_patch_does_its_operations_in_order(world: ConformanceFixture) -> None:
    await world.create("one", {"size": 3, "tags": ["a"], "options": {"x": "1"}})

    changed = await world.patch(
        "one",
        json_patch(
            [
                {"op": "test", "path": "/spec/size", "value": 3},
                {"op": "replace", "path": "/spec/size", "value": 4},
                {"op": "add", "path": "/spec/tags/-", "value": "b"},
                {"op": "add", "path": "/spec/tags/0", "value": "z"},
                {"op": "copy", "from": "/spec/options/x", "path": "/spec/options/a~1b"},
                {"op": "move", "from": "/spec/options/x", "path": "/spec/options/y"},
                {"op": "remove", "path": "/spec/tags/1"},
            ]
        ),
    )

    assert content(changed.spec) == {
        "size": 4,
        "tags": ["z", "b"],
        "options": {"a/b": "1", "y": "1"},
    }


async def a_json_patch_whose_test_fails_does_nothing(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3})

    with pytest.raises(errors.Invalid) as caught:
        await world.patch(
            "one",
            json_patch(
                [
                    {"op": "replace", "path": "/spec/size", "value": 4},
                    {"op": "test", "path": "/metadata/resourceVersion", "value": "0"},
                ]
            ),
        )

    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert (await world.get("one")).metadata == made.metadata


async def a_json_patch_of_a_missing_path_does_nothing(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3})

    for operation in (
        {"op": "remove", "path": "/spec/color"},
        {"op": "move", "from": "/spec/color", "path": "/spec/note"},
        {"op": "test", "path": "/spec/color", "value": "red"},
        {"op": "add", "path": "/spec/box/height", "value": 1},
        {"op": "add", "path": "/spec/tags/5", "value": "x"},
    ):
        with pytest.raises(errors.Invalid) as caught:
            await world.patch("one", json_patch([operation]))
        assert caught.value.code == 422

    assert (await world.get("one")).metadata == made.metadata


async def a_json_patch_takes_a_missing_field_for_null(world: ConformanceFixture) -> None:
    """Stricter readings of RFC 6902 refuse both; Kubernetes does not."""
    await world.create("one", {"size": 3})

    changed = await world.patch(
        "one",
        json_patch(
            [
                {"op": "test", "path": "/spec/color", "value": None},
                {"op": "replace", "path": "/spec/color", "value": "red"},
            ]
        ),
    )

    assert content(changed.spec) == {"size": 3, "color": "red"}


async def a_json_patch_with_a_passing_test_is_a_precondition(world: ConformanceFixture) -> None:
    made = await world.create("one")

    changed = await world.patch(
        "one",
        json_patch(
            [
                {
                    "op": "test",
                    "path": "/metadata/resourceVersion",
                    "value": made.metadata.resource_version,
                },
                {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/hold"]},
            ]
        ),
    )

    assert changed.metadata.finalizers == ("example.com/hold",)
    await world.patch("one", json_patch([{"op": "remove", "path": "/metadata/finalizers/0"}]))
    assert (await world.get("one")).metadata.finalizers == ()


async def a_strategic_merge_needs_a_built_in_kind(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.Unsupported) as caught:
        await world.patch("one", strategic_merge({"spec": {}}))

    assert caught.value.code == 415


async def a_strategic_merge_of_a_built_in_kind_merges_its_maps(world: ConformanceFixture) -> None:
    body = {"metadata": {"name": "settings", "labels": {"x": "y"}}, "data": {"a": "1", "b": "2"}}
    await world.client.create(core.CONFIG_MAPS, body, world.namespace)
    change = {"metadata": {"labels": {"z": "w"}}, "data": {"a": None, "c": "3"}}

    changed = await world.client.patch(
        core.CONFIG_MAPS, "settings", strategic_merge(change), world.namespace
    )

    assert content(changed.data) == {"b": "2", "c": "3"}
    assert changed.metadata.labels == {"x": "y", "z": "w"}


async def a_stale_strategic_merge_conflicts(world: ConformanceFixture) -> None:
    body = {"metadata": {"name": "settings"}, "data": {"a": "1"}}
    made = await world.client.create(core.CONFIG_MAPS, body, world.namespace)
    await world.client.patch(
        core.CONFIG_MAPS, "settings", merge({"data": {"a": "2"}}), world.namespace
    )
    stale = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"a": "3"}}

    with pytest.raises(errors.Conflict):
        await world.client.patch(
            core.CONFIG_MAPS, "settings", strategic_merge(stale), world.namespace
        )


async def a_subtree_can_be_copied_as_it_is(world: ConformanceFixture) -> None:
    source = await world.create("source", {"size": 7, "free": {"deep": [1, {"x": ""}, "é"]}})
    await world.create("copy")

    copied = await world.patch("copy", {"spec": source.spec})

    assert content(copied.spec)["size"] == 7
    assert content(copied.spec)["free"]["deep"] == content(source.spec)["free"]["deep"]


async def an_unknown_kind_of_patch_is_unsupported(world: ConformanceFixture) -> None:
    await world.create("one")

    with pytest.raises(errors.Unsupported):
        await world.patch("one", Patch("application/json", {"spec": {}}))


async def a_dry_run_changes_nothing(world: ConformanceFixture) -> None:
    made = await world.create("one", {"size": 3})

    tried = await world.patch("one", {"spec": {"size": 4}}, dry_run=True)

    assert content(tried.spec) == {"size": 4}
    assert tried.metadata.generation == 2
    assert (await world.get("one")).metadata == made.metadata


async def built_in_kinds_are_patched_alike(world: ConformanceFixture) -> None:
    body = {"metadata": {"name": "settings"}, "data": {"a": "1", "b": "2"}}
    made = await world.client.create(core.CONFIG_MAPS, body, world.namespace)

    changed = await world.client.patch(
        core.CONFIG_MAPS, "settings", merge({"data": {"a": None, "c": "3"}}), world.namespace
    )
    same = await world.client.patch(
        core.CONFIG_MAPS, "settings", merge({"data": {"c": "3"}}), world.namespace
    )

    assert content(changed.data) == {"b": "2", "c": "3"}
    assert revision_of(changed) > revision_of(made)
    assert same.metadata == changed.metadata
