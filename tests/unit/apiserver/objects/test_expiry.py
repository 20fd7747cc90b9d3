"""An Event is kept for an hour after it was last written, and nothing else expires."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from datum_compute.api import core
from datum_compute.client.protocol import Client, merge
from datum_compute.testing.server import embedded_server


def an_event(name: str) -> dict[str, Any]:
    involved = {"kind": "ConfigMap", "name": "web", "namespace": "default"}
    return {"metadata": {"name": name}, "involvedObject": involved, "reason": "Seen", "count": 1}


async def events(client: Client) -> list[str]:
    return [each.name for each in (await client.list(core.EVENTS, "default")).items]


async def test_an_event_lasts_an_hour_from_its_last_write() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        await client.create(core.CONFIG_MAPS, {"metadata": {"name": "web"}}, "default")
        await client.create(core.EVENTS, an_event("once"), "default")
        await client.create(core.EVENTS, an_event("again"), "default")
        await asyncio.sleep(1800)
        await client.patch(core.EVENTS, "again", merge({"count": 2}), "default")

        await asyncio.sleep(1780)
        assert await events(client) == ["again", "once"]
        await asyncio.sleep(40)
        assert await events(client) == ["again"]
        await asyncio.sleep(1800)
        assert await events(client) == []
        await client.get(core.CONFIG_MAPS, "web", "default")


async def test_watches_receive_the_expiry_as_a_deletion() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        made = await client.create(core.EVENTS, an_event("once"), "default")
        revision = made.metadata.resource_version
        async with client.watch(
            core.EVENTS, "default", resource_version=revision, timeout_seconds=7200
        ) as changes:
            received = [change.type async for change in _first(changes)]

    assert received == ["DELETED"]


async def _first(changes: Any) -> Any:
    async for change in changes:
        if change.type != "BOOKMARK":
            yield change
            return


async def test_a_restarted_server_keeps_events_for_another_hour(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with embedded_server(path=path) as embedded:
        await embedded.client("project/demo").create(core.EVENTS, an_event("once"), "default")
    async with embedded_server(path=path) as embedded:
        client = embedded.client("project/demo")
        await asyncio.sleep(3500)
        assert await events(client) == ["once"]
        await asyncio.sleep(200)
        assert await events(client) == []
