"""A request has the same outcome in the worker process as on the loop."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest

from datum_compute.apiserver import codec
from datum_compute.apiserver.worker.process import WorkerProcess
from tests.support.apiserver.widgets import WIDGETS, WIDGETS_PATH, widget, widget_server
from tests.support.apiserver.workers import CountingWorker

pytestmark = pytest.mark.realtime

ONE = f"{WIDGETS_PATH}/one"
JSON_PATCH = {"content-type": "application/json-patch+json"}
MERGE_PATCH = {"content-type": "application/merge-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PARTIAL = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
STRICT = {"fieldValidation": "Strict"}
DRY = {"dryRun": "All"}

STEPS: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("POST", WIDGETS_PATH, widget("two", {"unknown": 1}), {}),
    ("POST", WIDGETS_PATH, widget("two", {"unknown": 1}), {"query": STRICT}),
    ("POST", WIDGETS_PATH, widget("two"), {"query": DRY}),
    ("POST", WIDGETS_PATH, widget("one"), {"query": DRY}),
    ("POST", WIDGETS_PATH, widget("one"), {}),
    ("POST", WIDGETS_PATH, widget("", generateName="made-"), {}),
    ("POST", WIDGETS_PATH, widget("two", {"size": -1}), {}),
    ("POST", WIDGETS_PATH.replace("default", "none"), widget("two"), {}),
    ("POST", WIDGETS_PATH, widget("two"), {"headers": TABLE}),
    ("POST", WIDGETS_PATH, widget("two"), {"headers": {"accept": "application/yaml"}}),
    ("PUT", ONE, widget("one", {"size": 3}), {}),
    ("PUT", ONE, widget("one", {"size": 3}, resourceVersion="1"), {}),
    ("PATCH", ONE, {"spec": {"size": 4}}, {"headers": MERGE_PATCH}),
    ("PATCH", ONE, {"spec": {"size": 1}}, {"headers": MERGE_PATCH}),
    ("PATCH", ONE, {"spec": {"size": "x"}}, {"headers": MERGE_PATCH}),
    ("PATCH", ONE, {"metadata": {"labels": {"a": "b"}}}, {"headers": MERGE_PATCH, "query": DRY}),
    ("PATCH", ONE, [{"op": "add", "path": "/spec/color", "value": "red"}], {"headers": JSON_PATCH}),
    ("PATCH", ONE, [{"op": "test", "path": "/spec/size", "value": 9}], {"headers": JSON_PATCH}),
    ("PATCH", f"{ONE}/status", {"status": {"ready": True}}, {"headers": MERGE_PATCH}),
    ("PATCH", f"{WIDGETS_PATH}/none", {"spec": {}}, {"headers": MERGE_PATCH}),
    ("PATCH", ONE, {"metadata": {"finalizers": None}}, {"headers": MERGE_PATCH}),
    ("GET", ONE, None, {"headers": TABLE}),
    ("GET", ONE, None, {"headers": PARTIAL}),
    ("DELETE", ONE, None, {}),
    ("DELETE", ONE, {"preconditions": {"uid": "other"}}, {}),
]


PADDING = b" " * (codec.BYTES_PER_VALUE * codec.MAX_VALUES)
"""Makes any body a large one."""
_VARYING = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"  # times
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # uids
    r"|(?<=resourceVersion\":\")\d+|(?<=resourceVersion: ')\d+"
    r"|(?<=made-)\w{5}"  # generated names
    r"|\"\d+[smhd]\""  # ages
)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0]} {step[1].rpartition('/')[2]}")
async def test_a_request_has_the_same_outcome_in_the_worker(
    step: tuple[str, str, Any, dict[str, Any]],
) -> None:
    method, path, body, options = step
    sent = msgspec.json.encode(body) + PADDING if body and method != "DELETE" else body
    found = []
    for worker in (None, CountingWorker()):
        async with widget_server(worker=worker) as caller:
            tags = ["x"] * (codec.MAX_VALUES + 1)
            await caller.create("one", {"tags": tags}, finalizers=["example.com/hold"])
            if "finalizers" in str(body):
                await caller.delete("one")
            completed = worker.completed if worker is not None else 0

            response = await caller.send(method, path, sent, **options)
            listed = await caller.send("GET", WIDGETS_PATH)

            assert worker is None or worker.completed > completed
            texts = [_VARYING.sub("...", raw.decode()) for raw in (response.body, listed.body)]
            found.append((response.status, dict(response.headers), *texts))

    assert found[0] == found[1]


async def test_a_watch_and_the_next_write_see_what_the_worker_wrote() -> None:
    async with widget_server(worker=WorkerProcess()) as caller:
        async with caller.client.watch(WIDGETS) as events:
            body = msgspec.json.encode(widget("one", labels={"a": "b"})) + PADDING
            code, made = await caller.call("POST", WIDGETS_PATH, body)
            event = await anext(events)

        assert code == 201
        assert event.object.metadata.resource_version == made["metadata"]["resourceVersion"]
        assert event.object.metadata.labels == {"a": "b"}
        code, changed = await caller.patch("one", {"spec": {"size": 5}})
        assert (code, changed["metadata"]["generation"]) == (200, 2)
        code, listed = await caller.call("GET", WIDGETS_PATH, query={"labelSelector": "a=b"})
        assert [item["spec"]["size"] for item in listed["items"]] == [5]


async def test_what_changed_meanwhile_is_not_overwritten() -> None:
    async with widget_server(worker=WorkerProcess()) as caller:
        await caller.create("one", {"color": "red"})
        body = msgspec.json.encode({"spec": {"size": 7}}) + PADDING

        slow = asyncio.ensure_future(caller.patch("one", body))
        await asyncio.sleep(0)
        code, _ = await caller.patch("one", {"spec": {"color": "blue"}})
        slow_code, _ = await slow

        assert (code, slow_code) == (200, 200)
        assert (await caller.get("one"))["spec"] == {"size": 7, "color": "blue"}


async def test_nothing_is_created_in_a_namespace_that_was_deleted_meanwhile() -> None:
    async with widget_server(worker=WorkerProcess()) as caller:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await caller.call("POST", "/api/v1/namespaces", namespace)
        path = WIDGETS_PATH.replace("default", "shop")

        slow = asyncio.ensure_future(
            caller.call("POST", path, msgspec.json.encode(widget("one")) + PADDING)
        )
        await asyncio.sleep(0)
        await caller.call("DELETE", "/api/v1/namespaces/shop")
        code, _ = await slow

        assert code in (403, 404)
        assert (await caller.call("GET", path))[1]["items"] == []
