"""A request that takes long is carried out in the worker process, and the loop goes on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.apiserver.loop_meter import LoopMeter
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller, widget, widget_server
from tests.support.apiserver.workers import CountingWorker

pytestmark = pytest.mark.realtime

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON_PATCH = {"content-type": "application/json-patch+json"}
MERGE_PATCH = {"content-type": "application/merge-patch+json"}
YAML = {"content-type": "application/yaml"}
LONGEST_SECONDS = 0.25
"""CPU time of one turn of the loop: ten times what was measured, and a half or less of what any
of these requests takes on the loop."""


def config_map(name: str, data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def definition(properties: dict[str, Any]) -> dict[str, Any]:
    crd: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(WIDGET_CRD))
    crd["metadata"]["name"] = "gadgets.example.com"
    crd["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    return crd


def texts(count: int) -> dict[str, str]:
    return {f"key{index}": "" for index in range(count)}


def nested(depth: int, width: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return [value] * width


def yaml_of(lines: int) -> bytes:
    head = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n"
    return head + b"".join(b"  key%d: text\n" % index for index in range(lines))


Shape = tuple[str, str, Any, dict[str, str], int]

BODIES: dict[str, Shape] = {
    "unknown fields": (
        "POST",
        WIDGETS_PATH,
        widget("one", {f"key{index}": 1 for index in range(200_000)}),
        {},
        201,
    ),
    "operations of a JSON patch": (
        "PATCH",
        f"{CONFIG_MAPS}/large",
        [{"op": "add", "path": f"/data/new{index}", "value": ""} for index in range(10_000)],
        JSON_PATCH,
        200,
    ),
    "faults of the schema": (
        "POST",
        WIDGETS_PATH,
        widget("one", {"tags": [{}] * 300_000}),
        {},
        422,
    ),
    "colons in YAML": ("POST", CONFIG_MAPS, b"a: " + b":".join([b"59"] * 80_000), YAML, 422),
    "keys in YAML": ("POST", CONFIG_MAPS, yaml_of(14_000), YAML, 201),
    "valid items": ("POST", WIDGETS_PATH, widget("one", {"tags": ["x"] * 400_000}), {}, 201),
    "numbers with a point": (
        "POST",
        CONFIG_MAPS,
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"x":['
        + b",".join([b"1.5"] * 700_000)
        + b"]}",
        {},
        201,
    ),
    "deep lists": (
        "POST",
        CONFIG_MAPS,
        {**config_map("one", {}), "x": nested(150, 8_000)},
        {},
        201,
    ),
    "labels": (
        "POST",
        CONFIG_MAPS,
        {**config_map("one", {}), "metadata": {"name": "one", "labels": texts(150_000)}},
        {},
        422,
    ),
    "a small patch of a large object": (
        "PATCH",
        f"{CONFIG_MAPS}/large",
        {"metadata": {"labels": {"a": "b"}}},
        MERGE_PATCH,
        200,
    ),
    "deletion of a large object with a finalizer": (
        "DELETE",
        f"{CONFIG_MAPS}/large",
        None,
        {},
        200,
    ),
    "a table of a large object": (
        "GET",
        f"{CONFIG_MAPS}/large",
        None,
        {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
        200,
    ),
    "fields of a definition": (
        "POST",
        DEFINITIONS,
        definition({f"field{index}": {"type": "string"} for index in range(20_000)}),
        {},
        201,
    ),
    "patterns of a definition": (
        "POST",
        DEFINITIONS,
        definition({f"f{index}": {"type": "string", "pattern": "a{900}"} for index in range(800)}),
        {},
        201,
    ),
}


async def create_large(caller: Caller) -> None:
    body = config_map("large", texts(60_000))
    body["metadata"]["finalizers"] = ["example.com/hold"]
    response = await caller.send("POST", CONFIG_MAPS, body)
    assert response.status == 201


@pytest.mark.parametrize(("method", "path", "body", "headers", "code"), BODIES.values(), ids=BODIES)
async def test_the_loop_serves_others_during_a_long_request(
    method: str, path: str, body: Any, headers: dict[str, str], code: int
) -> None:
    worker = CountingWorker()
    async with widget_server(worker=worker) as caller:
        if path.endswith("large"):
            await create_large(caller)
        completed, meter = worker.completed, LoopMeter()

        response = await meter.measure(caller.send(method, path, body, headers=headers))

        assert response.status == code, response.body[:1000]
        assert worker.completed == completed + 1
        assert meter.turns > 20
        assert meter.longest_seconds < LONGEST_SECONDS


async def test_small_requests_stay_on_the_loop() -> None:
    worker = CountingWorker()
    async with widget_server(worker=worker) as caller:
        await caller.create("one", {"tags": ["x"] * 1_000})
        await caller.patch("one", {"spec": {"size": 2}})
        await caller.send("POST", CONFIG_MAPS, config_map("text", {"a": "x" * 300_000}))
        await caller.delete("one")

        assert worker.completed == 0


async def test_every_write_of_a_kind_with_a_costly_schema_runs_in_the_worker() -> None:
    parts = [{"minLength": 1}] * 2_000
    items = {"type": "array", "items": {"type": "string", "allOf": parts}}
    worker = CountingWorker()
    async with widget_server(worker=worker) as caller:
        code, _ = await caller.call("POST", DEFINITIONS, definition({"names": items}))
        assert code == 201
        path = WIDGETS_PATH.replace("widgets", "gadgets")
        body = {**widget("one", {"names": ["a"] * 900}), "kind": "Gadget"}
        meter = LoopMeter()

        response = await meter.measure(caller.send("POST", path, body))

        assert response.status == 201, response.body[:1000]
        assert worker.completed == 2
        assert meter.longest_seconds < LONGEST_SECONDS


async def test_defaults_that_would_fill_the_memory_are_refused() -> None:
    default = {f"key{index}": "x" * 50 for index in range(1_000)}
    item = {
        "type": "object",
        "properties": {
            "a": {"type": "object", "default": default, "additionalProperties": {"type": "string"}}
        },
    }
    worker = CountingWorker()
    async with widget_server(worker=worker) as caller:
        code, _ = await caller.call(
            "POST", DEFINITIONS, definition({"list": {"type": "array", "items": item}})
        )
        assert code == 201
        path = WIDGETS_PATH.replace("widgets", "gadgets")
        body = {**widget("one", {"list": [{}] * 100_000}), "kind": "Gadget"}

        code, refused = await caller.call("POST", path, body)

        assert (code, refused["reason"]) == (413, "RequestEntityTooLarge")
        assert (await caller.call("GET", f"{path}/one"))[0] == 404
        assert (await caller.create("two"))["spec"] == {"size": 1}


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "POST"),
        (WIDGETS_PATH, "DELETE"),
    ],
)
async def test_a_review_and_delete_options_are_small(path: str, method: str) -> None:
    async with widget_server() as caller:
        await caller.create("one")

        code, refused = await caller.call(method, path, {"spec": texts(2_000)})

        assert (code, refused["reason"]) == (413, "RequestEntityTooLarge")
        assert await caller.exists("one")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (",".join(f"key{index}" for index in range(101)), "101 requirements; at most 100"),
        ("a in (" + "x" * 9_000 + ")", "9007 characters; at most 8192"),
    ],
)
async def test_a_selector_is_short(selector: str, found: str) -> None:
    async with widget_server() as caller:
        query = {"labelSelector": selector}

        code, refused = await caller.call("GET", WIDGETS_PATH, query=query)

        assert code == 400
        assert found in refused["message"]


async def test_the_loop_goes_on_while_a_list_is_selected() -> None:
    async with widget_server() as caller:
        for index in range(2_000):
            await caller.create(f"w{index}", labels={"a": "b"})
        meter = LoopMeter()
        keys = ",".join(f"!key{index}" for index in range(100))

        response = await meter.measure(
            caller.send("GET", WIDGETS_PATH, query={"labelSelector": keys, "limit": "5"})
        )

        page = msgspec.json.decode(response.body)
        assert len(page["items"]) == 5
        assert page["metadata"]["continue"]
        query = {"labelSelector": keys + ",a=c"}
        none = await meter.measure(caller.send("GET", WIDGETS_PATH, query=query))
        assert none.status == 400
        query = {"labelSelector": keys.removesuffix(",!key99") + ",a=c"}
        await meter.measure(caller.send("GET", WIDGETS_PATH, query=query))
        assert meter.turns > 100
