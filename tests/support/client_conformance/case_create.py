"""Creating and reading objects."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from tests.support.client_conformance.fixture import (
    GROUP,
    WIDGETS,
    ConformanceFixture,
    causes,
    content,
)


async def a_created_object_has_an_identity(world: ConformanceFixture) -> None:
    widget = await world.create("one", {"size": 3})

    assert (widget.api_version, widget.kind) == (f"{GROUP}/v1", "Widget")
    assert (widget.namespace, widget.name) == (world.namespace, "one")
    assert len(widget.metadata.uid) == 36
    assert int(widget.metadata.resource_version) > 0
    assert widget.metadata.generation == 1
    assert widget.metadata.creation_timestamp is not None
    assert widget.metadata.deletion_timestamp is None


async def what_was_created_is_what_is_read(world: ConformanceFixture) -> None:
    made = await world.create(
        "one", {"size": 3, "options": {"a": "1"}}, labels={"x": "y"}, annotations={"n": "m"}
    )

    read = await world.get("one")

    assert read.metadata == made.metadata
    assert content(read.spec) == content(made.spec) == {"size": 3, "options": {"a": "1"}}
    assert read.metadata.labels == {"x": "y"}
    assert read.metadata.annotations == {"n": "m"}


async def text_survives_unchanged(world: ConformanceFixture) -> None:
    note = 'tab\t "quotes" \\ ünï — 東京 🙂 </script> \u2028 end'

    await world.create("one", {"note": note, "free": {"n": 9007199254740993, "f": 0.5}})

    spec = content((await world.get("one")).spec)
    assert spec["note"] == note
    assert spec["free"] == {"n": 9007199254740993, "f": 0.5}


async def creating_again_already_exists(world: ConformanceFixture) -> None:
    first = await world.create("one")

    with pytest.raises(errors.AlreadyExists) as caught:
        await world.create("one", {"size": 5})

    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")
    assert (await world.get("one")).metadata == first.metadata


async def the_same_name_in_another_namespace_is_another_object(world: ConformanceFixture) -> None:
    one = await world.create("one")

    other = await world.client.create(WIDGETS, {"metadata": {"name": "one"}}, world.other_namespace)

    assert other.metadata.uid != one.metadata.uid


async def a_generated_name_extends_its_base(world: ConformanceFixture) -> None:
    body = {"metadata": {"generateName": "gen-"}}

    one = await world.client.create(WIDGETS, body, world.namespace)
    two = await world.client.create(WIDGETS, body, world.namespace)

    for widget in (one, two):
        assert widget.name.startswith("gen-")
        assert len(widget.name) == len("gen-") + 5
        assert widget.metadata.generate_name == "gen-"
    assert one.name != two.name


async def a_name_or_its_base_is_required(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.client.create(WIDGETS, {"metadata": {}}, world.namespace)

    assert caught.value.code == 422


async def nothing_is_created_in_an_absent_namespace(world: ConformanceFixture) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await world.client.create(WIDGETS, {"metadata": {"name": "one"}}, "no-such-namespace")

    assert 'namespaces "no-such-namespace" not found' in caught.value.message


async def an_absent_object_is_not_found(world: ConformanceFixture) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await world.get("missing")

    assert (caught.value.code, caught.value.reason) == (404, "NotFound")
    assert f'widgets.{GROUP} "missing" not found' in caught.value.message


async def an_absent_object_in_an_absent_namespace_is_not_found(world: ConformanceFixture) -> None:
    with pytest.raises(errors.NotFound):
        await world.client.get(WIDGETS, "missing", "no-such-namespace")


async def an_unknown_kind_is_not_served(world: ConformanceFixture) -> None:
    for unknown in (
        Resource("unknown.example.com", "v1", "things", "Thing"),
        Resource(GROUP, "v2", "widgets", "Widget"),
        Resource(GROUP, "v1", "gadgets", "Gadget"),
        Resource("", "v1", "gadgets", "Gadget"),
    ):
        with pytest.raises(errors.NotServed):
            await world.client.get(unknown, "one", world.namespace)
        with pytest.raises(errors.NotServed):
            await world.client.list(unknown)
        with pytest.raises(errors.NotServed):
            await world.client.create(unknown, {"metadata": {"name": "one"}}, world.namespace)


async def defaults_are_filled_in(world: ConformanceFixture) -> None:
    widget = await world.create("one", {"parts": [{"name": "a"}, {"name": "b", "count": 2}]})

    assert content(widget.spec) == {
        "size": 1,
        "parts": [{"name": "a", "count": 1}, {"name": "b", "count": 2}],
    }


async def a_default_does_not_make_its_parent(world: ConformanceFixture) -> None:
    without = await world.create("without", {"size": 2})
    with_box = await world.create("with", {"size": 2, "box": {}})

    assert content(without.spec) == {"size": 2}
    assert content(with_box.spec) == {"size": 2, "box": {"height": 4}}


async def null_takes_the_default(world: ConformanceFixture) -> None:
    widget = await world.create("one", {"size": None})

    assert content(widget.spec) == {"size": 1}


async def unknown_fields_are_pruned_where_the_schema_is_closed(world: ConformanceFixture) -> None:
    spec = {"size": 2, "what": 1, "box": {"depth": 3}, "free": {"any": {"thing": [1, None]}}}

    await world.create("one", spec)

    assert content((await world.get("one")).spec) == {
        "size": 2,
        "box": {"height": 4},
        "free": {"any": {"thing": [1, None]}},
    }


async def status_cannot_be_set_by_creating(world: ConformanceFixture) -> None:
    body = {"metadata": {"name": "one"}, "spec": {}, "status": {"phase": "Running"}}

    widget = await world.client.create(WIDGETS, body, world.namespace)

    assert content(widget.status) is None


async def server_fields_cannot_be_chosen(world: ConformanceFixture) -> None:
    widget = await world.create(
        "one",
        uid="00000000-0000-0000-0000-000000000000",
        generation=7,
        creationTimestamp="2001-01-01T00:00:00Z",
        deletionTimestamp="2001-01-01T00:00:00Z",
    )

    assert widget.metadata.uid != "00000000-0000-0000-0000-000000000000"
    assert widget.metadata.generation == 1
    assert widget.metadata.creation_timestamp is not None
    assert widget.metadata.creation_timestamp.year > 2001
    assert widget.metadata.deletion_timestamp is None


async def a_value_out_of_range_is_invalid(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.create("one", {"size": 11})

    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert causes(caught.value) == {("spec.size", "FieldValueInvalid")}
    assert "should be less than or equal to 10" in caught.value.causes[0].message
    assert not await world.exists("one")


async def a_value_outside_an_enum_is_not_supported(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.create("one", {"color": "pink"})

    assert causes(caught.value) == {("spec.color", "FieldValueNotSupported")}
    assert 'supported values: "red", "green", "blue"' in caught.value.causes[0].message


async def a_value_of_another_type_is_invalid(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.create("one", {"size": "three"})

    assert causes(caught.value) == {("spec.size", "FieldValueTypeInvalid")}


async def a_missing_value_is_required(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.create("one", {"parts": [{"name": "a"}, {"count": 3}]})

    assert ("spec.parts[1].name", "FieldValueRequired") in causes(caught.value)


async def entries_of_a_keyed_list_are_unique(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.create("one", {"parts": [{"name": "a"}, {"name": "b"}, {"name": "a"}]})

    assert causes(caught.value) == {("spec.parts[2]", "FieldValueDuplicate")}


async def members_of_a_set_are_unique(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.create("one", {"tags": ["a", "b", "a"]})

    assert causes(caught.value) == {("spec.tags[2]", "FieldValueDuplicate")}


async def text_too_long_or_too_short_is_invalid(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.create("one", {"parts": [{"name": ""}, {"name": "x" * 21}]})

    assert causes(caught.value) == {
        ("spec.parts[0].name", "FieldValueInvalid"),
        ("spec.parts[1].name", "FieldValueTooLong"),
    }


async def all_faults_are_reported_at_once(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.create("one", {"size": 0, "color": "pink", "options": {"a": 1}})

    assert causes(caught.value) == {
        ("spec.size", "FieldValueInvalid"),
        ("spec.color", "FieldValueNotSupported"),
        ("spec.options.a", "FieldValueTypeInvalid"),
    }


async def a_name_must_be_a_dns_name(world: ConformanceFixture) -> None:
    for name in ("Upper", "under_score", "-dash", "dash-", "a" * 254, "a..b"):
        with pytest.raises(errors.Invalid) as caught:
            await world.create(name)
        assert ("metadata.name", "FieldValueInvalid") in causes(caught.value)


async def labels_have_a_form(world: ConformanceFixture) -> None:
    for labels in ({"ok": "not ok"}, {"bad key": "v"}, {"long": "x" * 64}):
        with pytest.raises(errors.Invalid) as caught:
            await world.create("one", labels=labels)
        assert causes(caught.value) == {("metadata.labels", "FieldValueInvalid")}


async def a_body_of_another_namespace_is_refused(world: ConformanceFixture) -> None:
    body = {"metadata": {"name": "one", "namespace": world.other_namespace}}

    with pytest.raises(errors.Invalid) as caught:
        await world.client.create(WIDGETS, body, world.namespace)

    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


async def a_body_of_another_version_is_refused(world: ConformanceFixture) -> None:
    body = {"apiVersion": f"{GROUP}/v2", "metadata": {"name": "one"}}

    with pytest.raises(errors.Invalid) as caught:
        await world.client.create(WIDGETS, body, world.namespace)

    assert caught.value.code == 400


async def a_body_of_another_kind_is_refused(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid):
        await world.client.create(
            WIDGETS, {"kind": "Gadget", "metadata": {"name": "one"}}, world.namespace
        )


async def a_body_far_too_large_is_refused(world: ConformanceFixture) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await world.create("one", {"note": "x" * (4 * 2**20)})

    assert caught.value.code == 413


async def a_dry_run_creates_nothing(world: ConformanceFixture) -> None:
    body: dict[str, Any] = {"metadata": {"name": "one"}, "spec": {"color": "red"}}

    tried = await world.client.create(WIDGETS, body, world.namespace, dry_run=True)

    assert content(tried.spec) == {"color": "red", "size": 1}
    assert tried.metadata.uid
    assert not await world.exists("one")
    with pytest.raises(errors.Invalid):
        await world.client.create(
            WIDGETS, {**body, "spec": {"size": 11}}, world.namespace, dry_run=True
        )


async def unknown_fields_are_warned_about(world: ConformanceFixture) -> None:
    warnings: list[str] = []
    client = world.target.client_with(on_warning=warnings.append)

    await client.create(
        WIDGETS, {"metadata": {"name": "one"}, "spec": {"what": 1}}, world.namespace
    )

    assert warnings == ['unknown field "spec.what"']


async def built_in_kinds_work_alike(world: ConformanceFixture) -> None:
    made = await world.client.create(
        core.CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"a": "1"}}, world.namespace
    )
    read = await world.client.get(core.CONFIG_MAPS, "settings", world.namespace)

    assert (read.api_version, read.kind) == ("v1", "ConfigMap")
    assert content(read.data) == {"a": "1"}
    assert read.metadata == made.metadata
    # A ConfigMap has no spec whose changes would be counted.
    assert read.metadata.generation == 0


async def a_namespace_is_active(world: ConformanceFixture) -> None:
    namespace = await world.client.get(core.NAMESPACES, world.namespace)

    assert namespace.view(core.Namespace).status.phase == "Active"
    assert namespace.namespace == ""
    assert namespace.metadata.labels["kubernetes.io/metadata.name"] == world.namespace


async def the_server_has_version_and_health_endpoints(world: ConformanceFixture) -> None:
    assert b'"gitVersion"' in await world.client.raw("/version")
    assert await world.client.raw("/readyz") == b"ok"
    async with world.client.stream("/readyz") as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b"ok"
    with pytest.raises(errors.NotServed):
        await world.client.raw("/no/such/path")


async def discovery_names_the_kind(world: ConformanceFixture) -> None:
    body = await world.client.raw(f"/apis/{GROUP}/v1")

    assert b'"APIResourceList"' in body
    assert b'"widgets"' in body
    assert b'"widgets/status"' in body
