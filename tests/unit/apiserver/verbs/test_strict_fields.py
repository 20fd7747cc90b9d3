"""Fields that are unknown, given twice, or of another type, under each field validation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.apiserver.codec import encode_json
from datum_compute.apiserver.request.body import duplicate_fields
from tests.support.apiserver.widgets import WIDGETS_PATH, widget_server

CORE = "/api/v1/namespaces/default"
TWICE = b'{"metadata":{"name":"a"},"data":{"a":"1","b":"2","a":"3"},"data":{"c":"4"}}'


@pytest.mark.parametrize(
    ("plural", "extra", "path"),
    [
        ("configmaps", {"spec": {}}, "spec"),
        ("secrets", {"stringdata": {}}, "stringdata"),
        ("serviceaccounts", {"imagePullSecrets": [{"name": "a", "x": 1}]}, "imagePullSecrets[0].x"),
    ],
)
async def test_unknown_fields_of_built_in_kinds_are_dropped_and_named(
    plural: str, extra: dict[str, Any], path: str
) -> None:
    async with widget_server() as caller:
        body = {"metadata": {"name": "a"}, **extra}

        strict = await caller.call(
            "POST", f"{CORE}/{plural}", body, query={"fieldValidation": "Strict"}
        )
        warned = await caller.send("POST", f"{CORE}/{plural}", body)
        body["metadata"] = {"name": "b"}
        ignored = await caller.send(
            "POST", f"{CORE}/{plural}", body, query={"fieldValidation": "Ignore"}
        )

        assert strict[0] == 400
        assert strict[1]["message"].endswith(f': strict decoding error: unknown field "{path}"')
        assert (warned.status, warned.headers["warning"]) == (
            201,
            f'299 - "unknown field \\"{path}\\""',
        )
        assert (ignored.status, "warning" in ignored.headers) == (201, False)
        assert path.encode() not in warned.body


async def test_a_field_that_is_given_twice_is_named() -> None:
    async with widget_server() as caller:
        path = f"{CORE}/configmaps"

        strict = await caller.call("POST", path, TWICE, query={"fieldValidation": "Strict"})
        warned = await caller.send("POST", path, TWICE)

        assert strict[0] == 400
        assert strict[1]["message"] == (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error:'
            ' duplicate field "data.a", duplicate field "data"'
        )
        assert warned.status == 201
        assert 'duplicate field \\"data.a\\"' in warned.headers["warning"]
        assert b'"data":{"c":"4"}' in warned.body, "the last one counts"
        again = TWICE.replace(b'"a"},"data"', b'"b"},"data"')
        ignored = await caller.send("POST", path, again, query={"fieldValidation": "Ignore"})
        assert (ignored.status, "warning" in ignored.headers) == (201, False)


async def test_a_custom_object_with_a_field_twice_is_named_too() -> None:
    async with widget_server() as caller:
        body = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},'
        body += b'"spec":{"size":1,"size":2}}'

        code, refused = await caller.call(
            "POST", WIDGETS_PATH, body, query={"fieldValidation": "Strict"}
        )

        assert code == 400
        assert refused["message"].endswith('strict decoding error: duplicate field "spec.size"')


@pytest.mark.parametrize(
    ("plural", "content"),
    [
        ("configmaps", {"data": {"a": 1}}),
        ("configmaps", {"data": []}),
        ("configmaps", {"immutable": "yes"}),
        ("secrets", {"data": {"a": "not base64!"}}),
        ("serviceaccounts", {"secrets": {}}),
    ],
)
async def test_another_type_is_a_bad_request(plural: str, content: dict[str, Any]) -> None:
    async with widget_server() as caller:
        body = {"metadata": {"name": "a"}, **content}

        code, refused = await caller.call("POST", f"{CORE}/{plural}", body)

        assert (code, refused["reason"]) == (400, "BadRequest")
        assert "cannot be handled as a" in refused["message"]


async def test_nulls_in_built_in_kinds_mean_nothing() -> None:
    async with widget_server() as caller:
        body = {"metadata": {"name": "a", "labels": None}, "data": None, "immutable": None}

        code, made = await caller.call("POST", f"{CORE}/configmaps", body)

        assert code == 201
        assert not made.keys() & {"data", "immutable"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(':a\\"{}', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab:", max_size=2), inner),
    max_leaves=10,
)


@given(value=VALUES)
def test_a_body_without_repetition_has_no_duplicates(value: Any) -> None:
    assert duplicate_fields({}, encode_json(value), value) == ()
