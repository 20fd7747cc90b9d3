"""Lists and watches that are too long for one step: sent in slices, of one moment."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import yaml

from datum_compute.apiserver.request.flow_control import SLICE_BYTES
from datum_compute.client.transport import HttpRequest, close_stream
from tests.support.apiserver.widgets import WIDGETS, WIDGETS_PATH, Caller, widget_server

COUNT = 40
SIZE = 20_000
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
FORMS = {
    "plain": "application/json",
    "table": f"{TABLE},application/json",
    "metadata": f"{PARTIAL},application/json",
    "yaml": "application/yaml",
}


async def fill(caller: Caller) -> None:
    for number in range(COUNT):
        await caller.create(f"w{number:02}", {"color": "x" * SIZE, "size": number})


async def open_stream(caller: Caller, accept: str, **query: str) -> Any:
    """The response as it leaves the handler, with no chunk taken yet."""
    handle = caller.embedded.server.handle
    token = {"authorization": f"Bearer {caller.embedded.token()}", "accept": accept}
    request = HttpRequest("GET", f"/clusters/dfw{WIDGETS_PATH}", tuple(query.items()), token)
    response = await handle(request)
    assert response.status == 200
    assert response.stream is not None
    return response.stream


@pytest.mark.parametrize("accept", FORMS.values(), ids=FORMS)
async def test_a_long_list_shows_the_moment_in_which_it_was_asked_for(accept: str) -> None:
    async with widget_server() as caller:
        await fill(caller)
        before = (await caller.send("GET", WIDGETS_PATH, headers={"accept": accept})).body
        stream = await open_stream(caller, accept)
        chunks = [await anext(stream)]

        await caller.delete("w38")
        await caller.patch("w39", {"spec": {"size": 1000}})
        await caller.create("w99")
        chunks += [chunk async for chunk in stream]

        found = b"".join(chunks)
        assert len(chunks) > 5
        assert max(map(len, chunks)) < 2 * SLICE_BYTES
        assert found == before
        items = yaml.safe_load(found) if accept.endswith("yaml") else json.loads(found)
        assert len(items.get("rows") or items["items"]) == COUNT


async def test_a_long_list_of_another_version_of_a_moment_is_sent_whole() -> None:
    async with widget_server() as caller:
        await fill(caller)
        _, listed = await caller.call("GET", WIDGETS_PATH)
        await caller.delete("w20")
        exact = {
            "resourceVersion": listed["metadata"]["resourceVersion"],
            "resourceVersionMatch": "Exact",
        }

        assert await caller.call("GET", WIDGETS_PATH, query=exact) == (200, listed)


@pytest.mark.parametrize("query", [{}, {"watch": "true"}], ids=["list", "watch"])
async def test_other_work_goes_on_between_two_slices(query: dict[str, str]) -> None:
    async with widget_server() as caller:
        await fill(caller)
        stream = await open_stream(caller, "application/json", **query)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        size = chunks = 0
        while size < COUNT * SIZE:
            size += len(await anext(stream))
            chunks += 1
        task.cancel()
        await close_stream(stream)

        assert turns >= chunks - 2 > 3


async def test_a_watch_begins_with_the_moment_in_which_it_was_opened() -> None:
    async with widget_server() as caller:
        await fill(caller)
        stream = await open_stream(caller, "application/json", watch="true")
        lines = b""

        lines += await anext(stream)
        await caller.delete("w39")
        await caller.create("w99")
        while lines.count(b"\n") < COUNT + 2:
            lines += await anext(stream)
        await close_stream(stream)

        events = [json.loads(line) for line in lines.splitlines()]
        names = [(each["type"], each["object"]["metadata"]["name"]) for each in events]
        assert names[:COUNT] == [("ADDED", f"w{number:02}") for number in range(COUNT)]
        assert names[COUNT:] == [("DELETED", "w39"), ("ADDED", "w99")]


async def test_a_watch_that_begins_too_slowly_expires() -> None:
    async with widget_server() as caller:
        await fill(caller)
        stream = await open_stream(caller, "application/json", watch="true")
        await anext(stream)
        await caller.patch("w39", {"spec": {"size": 1000}})
        await asyncio.sleep(1000)  # the version it would send has left the history

        lines = b"".join([chunk async for chunk in stream])

        assert json.loads(lines.splitlines()[-1])["object"]["code"] == 410


async def test_a_client_in_process_gets_a_long_list_whole() -> None:
    async with widget_server() as caller:
        await fill(caller)

        listed = await caller.client.list(WIDGETS, namespace="default")

        assert len(listed.items) == COUNT


async def test_a_list_names_its_page_in_every_form() -> None:
    async with widget_server() as caller:
        for number in range(3):
            await caller.create(f"w{number}")
        heads = []
        for accept in FORMS.values():
            response = await caller.send(
                "GET", WIDGETS_PATH, headers={"accept": accept}, query={"limit": "2"}
            )
            found = yaml.safe_load(response.body)
            heads.append((found["kind"], found["apiVersion"]))
            assert found["metadata"]["remainingItemCount"] == 1
            assert found["metadata"]["continue"]
            assert len(found.get("rows") or found["items"]) == 2

        assert heads == [
            ("WidgetList", "example.com/v1"),
            ("Table", "meta.k8s.io/v1"),
            ("PartialObjectMetadataList", "meta.k8s.io/v1"),
            ("WidgetList", "example.com/v1"),
        ]


async def test_an_empty_list_is_given_as_yaml() -> None:
    async with widget_server() as caller:
        response = await caller.send("GET", WIDGETS_PATH, headers={"accept": "application/yaml"})

        assert yaml.safe_load(response.body)["items"] == []


async def test_a_large_object_is_valid_yaml_too() -> None:
    async with widget_server() as caller:
        await caller.create("big", {"color": "x" * 100_000})
        accept = {"accept": "application/yaml"}
        one = await caller.send("GET", f"{WIDGETS_PATH}/big", headers=accept)
        many = await caller.send("GET", WIDGETS_PATH, headers=accept)

        found = yaml.safe_load(one.body)
        assert found["spec"]["color"] == "x" * 100_000
        assert yaml.safe_load(many.body)["items"] == [found]


async def test_other_work_goes_on_while_many_objects_are_deleted() -> None:
    async with widget_server() as caller:
        await fill(caller)
        deletion = asyncio.create_task(caller.call("DELETE", WIDGETS_PATH))
        seen = COUNT
        steps = 0
        while not deletion.done():
            _, listed = await caller.call("GET", WIDGETS_PATH, query={"limit": "1"})
            left = listed["metadata"].get("remainingItemCount", 0)
            steps += left < seen
            seen = left
            await asyncio.sleep(0)
        code, deleted = await deletion

        assert steps > 3
        assert code == 200
        assert [each["metadata"]["name"] for each in deleted["items"]] == [
            f"w{number:02}" for number in range(COUNT)
        ]
        assert (await caller.call("GET", WIDGETS_PATH))[1]["items"] == []


async def test_an_object_made_again_while_many_are_deleted_is_kept() -> None:
    async with widget_server() as caller:
        await fill(caller)
        deletion = asyncio.create_task(caller.call("DELETE", WIDGETS_PATH))
        await asyncio.sleep(0)
        await caller.delete("w39")
        await caller.create("w39")
        await deletion

        _, left = await caller.call("GET", WIDGETS_PATH)
        assert [each["metadata"]["name"] for each in left["items"]] == ["w39"]
