"""Lists: order, selectors, pages, revisions, forms."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.apiserver.storage.protocol import HISTORY_SECONDS
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, widget_server

ALL = "/apis/example.com/v1/widgets"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def _list(caller: Caller, path: str = WIDGETS_PATH, **query: str) -> dict[str, Any]:
    code, listed = await caller.call("GET", path, query=query)
    assert code == 200, listed
    return listed


async def test_a_list_is_in_order_and_names_its_kind() -> None:
    async with widget_server() as caller:
        for name in ("b", "c", "a"):
            await caller.create(name)

        listed = await _list(caller)

        assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", "example.com/v1")
        assert names(listed) == ["a", "b", "c"]


async def test_a_list_over_all_namespaces_goes_by_namespace_first() -> None:
    async with widget_server() as caller:
        await caller.call("POST", "/api/v1/namespaces", {"metadata": {"name": "another"}})
        await caller.create("a")
        other = WIDGETS_PATH.replace("default", "another")
        await caller.call("POST", other, {**(await caller.get("a")), "metadata": {"name": "z"}})

        assert names(await _list(caller, ALL)) == ["z", "a"]
        assert names(await _list(caller, other)) == ["z"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"labelSelector": "tier=web"}, ["one"]),
        ({"labelSelector": "tier in (web,db)"}, ["one", "two"]),
        ({"labelSelector": "!tier"}, ["three"]),
        ({"fieldSelector": "metadata.name=two"}, ["two"]),
        ({"fieldSelector": "metadata.name!=two,metadata.namespace=default"}, ["one", "three"]),
    ],
)
async def test_selectors_filter_a_list(query: dict[str, str], expected: list[str]) -> None:
    async with widget_server() as caller:
        await caller.create("one", labels={"tier": "web"})
        await caller.create("two", labels={"tier": "db"})
        await caller.create("three")

        assert sorted(names(await _list(caller, **query))) == sorted(expected)


@pytest.mark.parametrize(
    "query", [{"labelSelector": "a in ("}, {"fieldSelector": "spec.size=1"}, {"limit": "many"}]
)
async def test_a_selector_that_cannot_be_served_is_a_bad_request(query: dict[str, str]) -> None:
    async with widget_server() as caller:
        code, refused = await caller.call("GET", WIDGETS_PATH, query=query)

        assert (code, refused["reason"]) == (400, "BadRequest")


async def test_events_are_found_by_their_involved_object() -> None:
    path = "/api/v1/namespaces/default/events"
    async with widget_server() as caller:
        for name in ("one", "two"):
            about = {"kind": "Widget", "name": name, "namespace": "default"}
            await caller.call("POST", path, {"metadata": {"name": name}, "involvedObject": about})

        selector = "involvedObject.kind=Widget,involvedObject.name=two"
        assert names(await _list(caller, path, fieldSelector=selector)) == ["two"]


async def test_pages_show_one_revision_despite_concurrent_changes() -> None:
    async with widget_server() as caller:
        for number in range(5):
            await caller.create(f"w{number}", {"size": 1})
        first = await _list(caller, limit="2")

        await caller.delete("w3")
        await caller.create("w2a")
        await caller.patch("w4", {"spec": {"size": 9}})
        second = await _list(caller, limit="2", **{"continue": first["metadata"]["continue"]})
        third = await _list(caller, limit="2", **{"continue": second["metadata"]["continue"]})

        assert first["metadata"]["remainingItemCount"] == 3
        assert names(first) + names(second) + names(third) == ["w0", "w1", "w2", "w3", "w4"]
        assert third["items"][0]["spec"]["size"] == 1
        assert "continue" not in third["metadata"]
        revisions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
        assert len(revisions) == 1


async def test_a_page_of_a_compacted_revision_is_gone() -> None:
    env = SimulatedEnvironment()
    async with widget_server(env) as caller:
        for number in range(3):
            await caller.create(f"w{number}")
        first = await _list(caller, limit="1")
        await caller.create("later")
        await asyncio.sleep(HISTORY_SECONDS + 30)

        code, gone = await caller.call(
            "GET", WIDGETS_PATH, query={"continue": first["metadata"]["continue"], "limit": "1"}
        )

        assert (code, gone["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"continue": "rubbish"}, 400),
        ({"continue": "e30=", "resourceVersion": "5"}, 400),
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422),
        ({"resourceVersionMatch": "Sometimes", "resourceVersion": "1"}, 422),
        ({"resourceVersion": "999999999999999999"}, 504),
        ({"resourceVersion": "1", "resourceVersionMatch": "Exact"}, 410),
        ({"sendInitialEvents": "true"}, 422),
        ({"resourceVersion": "0"}, 200),
        ({"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}, 200),
    ],
)
async def test_a_list_honours_the_requested_revision(query: dict[str, str], code: int) -> None:
    async with widget_server() as caller:
        await caller.create("one")

        assert (await caller.send("GET", WIDGETS_PATH, query=query)).status == code


async def test_a_list_at_an_exact_revision_shows_that_revision() -> None:
    async with widget_server() as caller:
        await caller.create("one", {"size": 1})
        then = (await _list(caller))["metadata"]["resourceVersion"]
        await caller.patch("one", {"spec": {"size": 2}})
        await caller.create("two")

        past = await _list(caller, resourceVersion=then, resourceVersionMatch="Exact")

        assert [(i["metadata"]["name"], i["spec"]["size"]) for i in past["items"]] == [("one", 1)]
        assert past["metadata"]["resourceVersion"] == then


async def test_a_table_has_the_columns_of_the_definition() -> None:
    async with widget_server() as caller:
        await caller.create("one", {"size": 4})

        _, table = await caller.call("GET", WIDGETS_PATH, headers=TABLE)
        _, single = await caller.call("GET", f"{WIDGETS_PATH}/one", headers=TABLE)

        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
        assert [row["cells"] for row in table["rows"]] == [["one", 4]]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        assert [row["cells"] for row in single["rows"]] == [["one", 4]]


async def test_metadata_alone_may_be_requested() -> None:
    form = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    async with widget_server() as caller:
        await caller.create("one")

        _, listed = await caller.call("GET", WIDGETS_PATH, headers=form)

        assert listed["kind"] == "PartialObjectMetadataList"
        assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize(
    ("accept", "code"),
    [
        ("application/json;as=Gadget", 406),
        ("text/html", 406),
        ("application/vnd.kubernetes.protobuf", 406),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("application/yaml", 200),
        ("*/*", 200),
    ],
)
async def test_an_unknown_form_is_not_acceptable(accept: str, code: int) -> None:
    async with widget_server() as caller:
        await caller.create("one")

        answer = await caller.send("GET", f"{WIDGETS_PATH}/one", headers={"accept": accept})

        assert answer.status == code
