"""Defaults that a definition gains after an object was stored, as the real server shows them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec

from datum_compute.testing.server import embedded_server
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller, widget

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/widgets.example.com"
MERGE_PATCH = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def definition(**defaults: Any) -> dict[str, Any]:
    crd = copy.deepcopy(WIDGET_CRD)
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del root["status"]["default"]
    root["spec"]["properties"]["size"].pop("default")
    for name, value in defaults.items():
        root["spec"]["properties"][name]["default"] = value
    return crd


def server(path: Path) -> Any:
    return embedded_server(path=path, crds_for=lambda _: [], cells=("dfw",), projects=())


async def define(caller: Caller, **defaults: Any) -> None:
    spec = {"spec": definition(**defaults)["spec"]}
    code, answer = await caller.call("PATCH", DEFINITION, spec, headers=MERGE_PATCH)
    assert code == 200, answer


async def stored_before(caller: Caller) -> dict[str, Any]:
    """An object that is older than the defaults of its definition."""
    assert (await caller.call("POST", DEFINITIONS, definition()))[0] == 201
    made = await caller.create("one", {"tags": ["a"]})
    assert made["spec"] == {"tags": ["a"]}
    await define(caller, size=7, color="red")
    return made


SHOWN = {"tags": ["a"], "size": 7, "color": "red"}


async def test_every_read_shows_them_and_nothing_is_written(tmp_path: Path) -> None:
    async with server(tmp_path / "state.db") as embedded:
        caller = Caller(embedded, "cell/dfw")
        made = await stored_before(caller)

        found = await caller.get("one")
        _, page = await caller.call("GET", WIDGETS_PATH)
        _, table = await caller.call("GET", WIDGETS_PATH, headers=TABLE)
        query = {"watch": "true", "resourceVersion": "0", "timeoutSeconds": "1"}
        watch = await caller.send("GET", WIDGETS_PATH, query=query)
        assert watch.stream is not None
        events = [msgspec.json.decode(line) async for line in watch.stream]

        assert found["spec"] == page["items"][0]["spec"] == SHOWN
        assert table["rows"][0]["cells"][1] == 7
        assert [event["object"]["spec"] for event in events] == [SHOWN]
        assert found["metadata"] == made["metadata"]
    async with server(tmp_path / "state.db") as embedded:
        caller = Caller(embedded, "cell/dfw")
        assert (await caller.get("one"))["spec"] == SHOWN
        await define(caller, size=8)
        assert (await caller.get("one"))["spec"] == {"tags": ["a"], "size": 8}


async def test_a_write_stores_them_and_its_writer_does_not_own_them(tmp_path: Path) -> None:
    async with server(tmp_path / "state.db") as embedded:
        caller = Caller(embedded, "cell/dfw")
        await stored_before(caller)
        operations = [
            {"op": "test", "path": "/spec/size", "value": 7},
            {"op": "replace", "path": "/spec/color", "value": "blue"},
        ]

        code, patched = await caller.call(
            "PATCH",
            f"{WIDGETS_PATH}/one",
            operations,
            headers=JSON_PATCH,
            query={"fieldManager": "ana"},
        )

        assert (code, patched["spec"]) == (200, SHOWN | {"color": "blue"})
        (entry,) = (e for e in patched["metadata"]["managedFields"] if e["manager"] == "ana")
        assert entry["fieldsV1"] == {"f:spec": {"f:color": {}}}
        await define(caller)
        assert (await caller.get("one"))["spec"] == SHOWN | {"color": "blue"}


async def test_an_object_that_is_newer_than_its_definition_is_sent_as_it_is(
    tmp_path: Path,
) -> None:
    async with server(tmp_path / "state.db") as embedded:
        caller = Caller(embedded, "cell/dfw")
        await stored_before(caller)
        await caller.call("POST", WIDGETS_PATH, widget("two"))
    async with server(tmp_path / "state.db") as embedded:
        plane = embedded.server._planes.get("cell/dfw")
        assert plane is not None
        kind = plane.registry.find("example.com", "v1", "widgets")
        assert kind is not None
        rows = {row.name: row for row in plane.store.table("widgets.example.com").in_order(None)}

        assert plane.writer.lacks_defaults(kind, rows["one"])
        assert not plane.writer.lacks_defaults(kind, rows["two"])
