"""Copies between planes keep unknown fields."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.kinds import KINDS, Kind
from datum_compute.api.meta import NOTHING, Object, ObjectList
from datum_compute.api.scheme import Resource
from datum_compute.client.decoder import Decoder
from datum_compute.testing.server import embedded_server
from tests.support.api.complete_objects import complete_object
from tests.support.api.definitions import schemas

numbers = st.floats(allow_nan=False, allow_infinity=False)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
subtrees = st.dictionaries(st.text(), values, max_size=4)
bodies = st.fixed_dictionaries({"spec": subtrees, "status": subtrees, "data": subtrees})


few = settings(max_examples=25)  # each holds several whole trees


def named(kind: Kind) -> str:
    return kind.resource.kind


def wire(content: dict[str, Any]) -> bytes:
    head = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}}
    return json.dumps(head | content).encode()


@few
@given(bodies)
def test_an_envelope_keeps_spec_status_and_data_to_the_byte(content: dict[str, Any]) -> None:
    obj = Object.from_wire(wire(content))

    for part in ("spec", "status", "data"):
        assert bytes(getattr(obj, part)) == json.dumps(content[part]).encode()
    assert json.loads(obj.to_wire()) == json.loads(wire(content))


@few
@given(st.lists(bodies, max_size=2))
def test_items_of_a_list_keep_their_bytes(contents: list[dict[str, Any]]) -> None:
    items = b",".join(wire(content) for content in contents)

    found = ObjectList.from_wire(b'{"items": [' + items + b"]}").items

    assert [json.loads(each.to_wire()) for each in found] == [
        json.loads(wire(content)) for content in contents
    ]


@few
@given(bodies)
def test_a_copied_subtree_is_what_was_read(content: dict[str, Any]) -> None:
    source = Object.from_wire(wire(content))

    written = msgspec.json.encode({"metadata": {"name": "copy"}, "spec": source.spec})

    assert json.loads(written)["spec"] == json.loads(json.dumps(content["spec"]))


@few
@given(unknown=st.dictionaries(st.text(min_size=1).map("future".__add__), values, max_size=3))
def test_decoding_a_view_does_not_change_the_object(unknown: dict[str, Any]) -> None:
    spec = {**complete_object(schemas("instances")[".spec"]), **unknown}
    obj = Object.from_wire(wire({"spec": spec}))

    instance = obj.view(compute.Instance)

    assert instance.gates == ("a",)
    assert json.loads(bytes(obj.spec)) == json.loads(json.dumps(spec))


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_view_reads_every_field_of_its_kind(kind: Kind) -> None:
    found = schemas(kind.resource.plural)
    content = {
        part: complete_object(found[f".{part}"])
        for part in ("spec", "status")
        if f".{part}" in found
    }

    view = Object.from_wire(wire(content)).view(kind.view)

    for part, expected in content.items():
        assert msgspec.json.decode(msgspec.json.encode(getattr(view, part))) == expected


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_view_leaves_out_unknown_fields_and_the_object_keeps_them(kind: Kind) -> None:
    found = schemas(kind.resource.plural)
    parts = [part for part in ("spec", "status") if f".{part}" in found]
    known = {part: complete_object(found[f".{part}"]) for part in parts}
    future = {part: complete_object(found[f".{part}"], unknown=True) for part in parts}

    obj = Object.from_wire(wire(future))
    view = obj.view(kind.view)

    assert view == Object.from_wire(wire(known)).view(kind.view)
    for part in parts:
        assert json.loads(bytes(getattr(obj, part))) == future[part] != known[part]


anything = st.dictionaries(
    st.text().filter(lambda name: name not in ("apiVersion", "kind", "metadata")),
    values,
    max_size=6,
)


@few
@given(anything, st.sampled_from(["binaryData", "immutable", "type", "rules", "webhooks"]), values)
def test_an_envelope_keeps_every_field_of_a_kind(
    content: dict[str, Any], name: str, value: Any
) -> None:
    body = wire({**content, name: value})

    assert json.loads(Object.from_wire(body).to_wire()) == json.loads(body)


@few
@given(st.lists(anything, max_size=3))
def test_items_of_a_list_keep_every_field_of_a_kind(contents: list[dict[str, Any]]) -> None:
    items = [json.loads(wire(content)) for content in contents]
    body = json.dumps({"apiVersion": "v1", "kind": "ThingList", "items": items}).encode()

    found = ObjectList.from_wire(body).items

    assert [json.loads(obj.to_wire()) for obj in found] == items


@few
@given(anything)
def test_a_partly_readable_object_keeps_its_other_fields(content: dict[str, Any]) -> None:
    head = {"metadata": {"name": "a", "labels": {"good": "yes", "bad": 1}}}

    found = Decoder("toy", lambda _: None).single("things", wire({**content, **head}))

    kept = {"metadata": {"name": "a", "labels": {"good": "yes"}}}
    assert json.loads(found.to_wire()) == json.loads(wire({**content, **kept}))


def test_an_object_without_other_fields_stores_none() -> None:
    assert Object.from_wire(wire({"spec": {}})).extra is NOTHING


async def test_a_secret_that_is_read_and_written_back_is_unchanged() -> None:
    secrets = Resource("", "v1", "secrets", "Secret")
    body = {
        "metadata": {"name": "a"},
        "type": "example.com/own",
        "data": {"key": "dmFsdWU="},
        "immutable": True,
    }
    async with embedded_server(cells=(), projects=()) as embedded:
        client = embedded.client("root")
        await client.create(secrets, body, "default")

        await client.update(secrets, await client.get(secrets, "a", "default"))

        found = json.loads(await client.raw("/api/v1/namespaces/default/secrets/a"))
        assert {name: found[name] for name in body if name != "metadata"} == {
            name: value for name, value in body.items() if name != "metadata"
        }
