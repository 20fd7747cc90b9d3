"""Hostile requests: each is refused with a Status, and nothing of it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, widget, widget_server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON_PATCH = {"content-type": "application/json-patch+json"}
YAML = {"content-type": "application/yaml"}


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


BOXES = "/apis/hostile.example/v1/namespaces/default/boxes"


async def box(caller: Caller, **spec: Any) -> str:
    """The path of an object of a kind that holds any value."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.hostile.example"},
        "spec": {
            "group": "hostile.example",
            "scope": "Namespaced",
            "names": {"plural": "boxes", "kind": "Box"},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    code, answer = await caller.call("POST", DEFINITIONS, definition)
    assert code == 201, answer
    body = {"apiVersion": "hostile.example/v1", "kind": "Box", "metadata": {"name": "one"}}
    code, answer = await caller.call("POST", BOXES, body | spec)
    assert code == 201, answer
    return f"{BOXES}/one"


def within(body: dict[str, Any], value: bytes) -> bytes:
    """The body with ``value``, which may be anything, as one more field."""
    return json.dumps(body).encode()[:-1] + b',"field":' + value + b"}"


async def names(caller: Caller, path: str) -> list[str]:
    _, found = await caller.call("GET", path)
    return [item["metadata"]["name"] for item in found["items"]]


NO_JSON = {
    "nothing": b"",
    "blank": b"   ",
    "half": b'{"metadata":',
    "two": b"{} {}",
    "byte order mark": b"\xef\xbb\xbf{}",
    "not a number": within(config_map("one"), b"NaN"),
    "comment": b"{} // no",
    "invalid UTF-8": within(config_map("one"), b'"\xff\xfe"'),
    "overlong UTF-8": within(config_map("one"), b'"\xc0\x80"'),
    "lone surrogate": within(config_map("one"), b'"\\ud800"'),
    "raw control character": within(config_map("one"), b'"\x00"'),
    "more than a float holds": within(config_map("one"), b"1e400"),
    "more digits than Python reads": within(config_map("one"), b"1" * 5000),
    "deep list": within(config_map("one"), b"[" * 100_000 + b"]" * 100_000),
    "deep object": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "just too deep": within(config_map("one"), b"[" * 200 + b"]" * 200),
    "null": b"null",
    "list": b"[]",
    "text": b'"text"',
    "number": b"5",
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
@pytest.mark.parametrize("path", [WIDGETS_PATH, CONFIG_MAPS, DEFINITIONS])
async def test_a_body_that_is_no_object_is_refused(path: str, body: bytes) -> None:
    async with widget_server() as caller:
        before = await names(caller, path)

        code, answer = await caller.call("POST", path, body)

        assert (code, answer["kind"], answer["reason"]) == (400, "Status", "BadRequest")
        assert await names(caller, path) == before


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
@pytest.mark.parametrize("form", ["merge-patch", "json-patch"])
async def test_an_invalid_patch_is_refused(form: str, body: bytes) -> None:
    async with widget_server() as caller:
        before = await caller.create("one")
        headers = {"content-type": f"application/{form}+json"}
        expected = 200 if (form, body) == ("json-patch", b"[]") else 400

        code, _ = await caller.call("PATCH", f"{WIDGETS_PATH}/one", body, headers=headers)

        assert code == expected
        assert await caller.get("one") == before


NO_YAML = {
    "deep list": b"[" * 100_000 + b"]" * 100_000,
    "deep blocks": b"\n".join(b" " * level + b"a:" for level in range(300)),
    "aliases": b"a: &a [1]\nb: *a",
    "more digits than Python reads": b"a: " + b"1" * 5000,
    "tag": b"a: !!python/object/apply:os.getcwd []",
    "list as key": b"? [1]\n: 2",
    "invalid UTF-8": b"a: \xff",
    "NUL": b"a: \x00",
    "tab": b"a:\n\t- b",
    "date": b"apiVersion: v1\nkind: ConfigMap\nmetadata: 2026-01-01",
}


@pytest.mark.parametrize("body", NO_YAML.values(), ids=NO_YAML)
async def test_yaml_that_cannot_be_an_object_is_refused(body: bytes) -> None:
    async with widget_server() as caller:
        code, answer = await caller.call("POST", CONFIG_MAPS, body, headers=YAML)

        assert (code, answer["reason"]) == (400, "BadRequest")
        assert await names(caller, CONFIG_MAPS) == []


async def test_the_size_of_a_yaml_body_is_limited() -> None:
    async with widget_server() as caller:
        small = b"metadata: {name: small}\ndata: {a: " + b"x" * 200_000 + b"}"
        large = b"metadata: {name: large}\ndata: {a: " + b"x" * 300_000 + b"}"

        taken, _ = await caller.call("POST", CONFIG_MAPS, small, headers=YAML)
        refused, answer = await caller.call("POST", CONFIG_MAPS, large, headers=YAML)

        assert (taken, refused) == (201, 413)
        assert answer["message"] == "Request entity too large: limit is 262144"
        assert await names(caller, CONFIG_MAPS) == ["small"]


async def test_the_last_of_duplicate_fields_counts() -> None:
    async with widget_server() as caller:
        body = b'{"metadata":{"name":"first","name":"last"},"data":{"a":"1"},"data":{"b":"2"}}'

        _, made = await caller.call("POST", CONFIG_MAPS, body)

        assert made["metadata"]["name"] == "last"
        assert made["data"] == {"b": "2"}


async def test_any_json_value_is_returned_unchanged() -> None:
    async with widget_server() as caller:
        data = {"nul": "a\0b", "pair": "\U0001f600", "line": "\u2028", "empty": ""}

        await caller.call("POST", CONFIG_MAPS, config_map("one", data=data))

        _, found = await caller.call("GET", f"{CONFIG_MAPS}/one")
        assert found["data"] == data


MALFORMED_METADATA = {
    "list": [],
    "text": "text",
    "name of a number": {"name": 5},
    "namespace of a number": {"name": "one", "namespace": 5},
    "revision of a number": {"name": "one", "resourceVersion": 5},
    "labels in a list": {"name": "one", "labels": ["a"]},
    "annotation of an object": {"name": "one", "annotations": {"a": {}}},
    "finalizers in text": {"name": "one", "finalizers": "text"},
    "owner's uid of a number": {"name": "one", "ownerReferences": [{"uid": 5}]},
    "prefix of a number": {"generateName": 5},
}


@pytest.mark.parametrize("metadata", MALFORMED_METADATA.values(), ids=MALFORMED_METADATA)
@pytest.mark.parametrize("kind", ["Widget", "ConfigMap"])
async def test_malformed_metadata_is_refused(kind: str, metadata: Any) -> None:
    async with widget_server() as caller:
        path = WIDGETS_PATH if kind == "Widget" else CONFIG_MAPS
        body = {**(widget("") if kind == "Widget" else config_map("")), "metadata": metadata}

        code, answer = await caller.call("POST", path, body)

        assert (code, answer["reason"]) == (400, "BadRequest")
        assert await names(caller, path) == []


BAD_NAMES = ["x" * 254, "x" * 1_000_000, "Upper", "a b", "a\0", "..", ".", "a/b", "é", "%2e", "-a"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: name[:6])
async def test_a_name_that_is_invalid_in_a_path_is_refused(name: str) -> None:
    async with widget_server() as caller:
        code, answer = await caller.call("POST", WIDGETS_PATH, widget(name))

        assert (code, answer["reason"]) == (422, "Invalid")
        assert answer["details"]["causes"][0]["field"] == "metadata.name"
        assert await names(caller, WIDGETS_PATH) == []


BAD_QUERIES: dict[str, Mapping[str, str]] = {
    "endless limit": {"limit": "9" * 5000},
    "endless revision": {"resourceVersion": "9" * 5000},
    "endless negative limit": {"limit": "-" + "9" * 5000},
    "limit as text": {"limit": "ten"},
    "limit in other digits": {"limit": "\u0665"},
    "time beyond all floats": {"watch": "true", "timeoutSeconds": "1" + "0" * 400},
    "endless time": {"watch": "true", "timeoutSeconds": "9" * 5000},
    "watch since for ever": {"watch": "true", "resourceVersion": "9" * 5000},
    "token that is none": {"continue": "token"},
    "token of other letters": {"continue": "\xe9"},
    "token of nothing": {"continue": "e30="},
    "open bracket": {"labelSelector": "a in ("},
    "many brackets": {"labelSelector": "(" * 5000},
    "NUL": {"labelSelector": "\0"},
    "only an equals sign": {"fieldSelector": "="},
    "no operator": {"fieldSelector": "metadata.name"},
    "unknown field": {"fieldSelector": "spec.size=1"},
}


@pytest.mark.parametrize("query", BAD_QUERIES.values(), ids=BAD_QUERIES)
async def test_an_invalid_query_is_refused(query: Mapping[str, str]) -> None:
    async with widget_server() as caller:
        code, answer = await caller.call("GET", WIDGETS_PATH, query=query)

        assert (code, answer["reason"]) == (400, "BadRequest")
        assert await names(caller, WIDGETS_PATH) == []


async def test_a_json_patch_whose_copies_grow_the_object_too_much_is_refused() -> None:
    async with widget_server() as caller:
        path = await box(caller, list=["x"])
        double = {"op": "copy", "from": "/list", "path": "/list/-"}

        few, grown = await caller.call("PATCH", path, [double] * 3, headers=JSON_PATCH)
        many, answer = await caller.call("PATCH", path, [double] * 60, headers=JSON_PATCH)

        assert few == 200
        assert (many, answer["reason"]) == (422, "Invalid")
        assert (await caller.call("GET", path))[1] == grown


async def test_a_patch_cannot_nest_deeper_than_a_body() -> None:
    async with widget_server() as caller:
        path = await box(caller, field={})
        bury = {"op": "add", "path": "/field", "value": json.loads("[" * 150 + "]" * 150)}
        deeper = {"op": "add", "path": "/field" + "/0" * 149 + "/-", "value": bury["value"]}

        _, buried = await caller.call("PATCH", path, [bury], headers=JSON_PATCH)
        code, answer = await caller.call("PATCH", path, [deeper], headers=JSON_PATCH)

        assert (code, answer["reason"]) == (400, "BadRequest")
        assert (await caller.call("GET", path))[1] == buried


UNKNOWN_PATHS = [
    *("/api//v1", "/api/v1//namespaces", "/api/v1/namespaces//"),
    *("/api/v1/./namespaces", "/api/v1/../v1/namespaces"),
    *("/api/v1/namespaces/default/../default/configmaps", "/apis/x", "/apis/a/b/c"),
    *("/api/v1/namespaces/a/b/c/d/e", "/clusters", "/clusters/nowhere/api", "/%00", "/\0"),
    *("/openapi/v3/apis/nothing/v1", "/apis/example.com/v1/widgets/one"),
    *("/x" * 50_000, "/api/v1/" + "x" * 100_000),
]


@pytest.mark.parametrize("path", UNKNOWN_PATHS, ids=lambda path: path[:40])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_unknown_path_is_not_found(method: str, path: str) -> None:
    async with widget_server() as caller:
        await caller.create("one")

        response = await caller.send(method, path, b"{}")

        assert response.status in (404, 405)
        assert await caller.exists("one")


ODD_NAMES = ["..", ".", "\0", "\xe9", "a b", "%2e%2e", "x" * 100_000, "one\n"]


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: name[:6])
@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH"])
async def test_an_object_with_an_unusual_name_is_not_found(method: str, name: str) -> None:
    async with widget_server() as caller:
        await caller.create("one")
        headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}

        code, answer = await caller.call(method, f"{WIDGETS_PATH}/{name}", b"{}", headers=headers)

        found = (400, "BadRequest") if name in (".", "..") else (404, "NotFound")
        assert (code, answer["reason"]) == found
        assert await caller.exists("one")


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", ""])
@pytest.mark.parametrize(
    "path", [WIDGETS_PATH, f"{WIDGETS_PATH}/one", f"{WIDGETS_PATH}/one/status"]
)
async def test_an_unknown_method_is_not_allowed(method: str, path: str) -> None:
    async with widget_server() as caller:
        await caller.create("one")

        code, answer = await caller.call(method, path)

        assert (code, answer["reason"]) == (405, "MethodNotAllowed")
