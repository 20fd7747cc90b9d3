from __future__ import annotations

from typing import Any

import pytest

from datum_compute.apiserver.codec import encode_json
from datum_compute.apiserver.request import body
from tests.support.apiserver.widgets import widget_server

MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = {"content-type": "application/apply-patch+yaml"}
FLOW = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {a: b}}"


async def test_yaml_in_flow_style_is_applied_and_created() -> None:
    async with widget_server() as caller:
        query = {"fieldManager": "m"}
        sent = await caller.send("PATCH", f"{MAPS}/one", body=FLOW, headers=APPLY, query=query)
        headers = {"content-type": "application/yaml"}
        other = FLOW.replace(b"one", b"two")
        made = await caller.send("POST", MAPS, body=other, headers=headers)

        assert (sent.status, made.status) == (201, 201)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"a": {"b": 1}}', {"a": {"b": 1}}),
        (b"{a: {b: 1}}", {"a": {"b": 1}}),
        (b'{"a": {"b": 1},} # text', {"a": {"b": 1}}),
        (b"a: 1\n---\nb: 2", {"a": 1}),
        (b"a: 1\n---\n{", {"a": 1}),
        (b"# nothing", None),
    ],
)
def test_the_first_document_of_an_apply_is_read(text: bytes, expected: Any) -> None:
    assert body.applied_value(text) == expected


@pytest.mark.parametrize("text", [b"{a: 1, a: 2}", b"b:\n- a: 1\n  a: 2\n", b'{"a": 1, "a": 2}'])
def test_keys_that_are_given_twice_are_named_in_one_text(text: bytes) -> None:
    (found,) = body.applied_duplicates(text)

    assert 'key "' in found


def test_equal_keys_of_two_maps_are_not_given_twice() -> None:
    text = b"a: {x: 1, y: [x, x, {x: 1}]}\nb: {x: x}\n---\nb: 1\nb: 2\n"

    assert body.applied_duplicates(text) == ()
    assert body.applied_duplicates(encode_json({"a": {"x": 1}, "b": {"x": "x"}})) == ()
