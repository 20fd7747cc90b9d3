"""Events are found by kubectl, counted instead of repeated, limited, and never fail a reconcile."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from datum_compute.api import core
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client
from datum_compute.decisions.status_events import NORMAL, WARNING, EventContent
from datum_compute.runtime.events import EventRecorder
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.client.intercepted_transport import forbid
from tests.support.controllers.planes import controller_planes
from tests.support.runtime.fake_plane import FakePlane

BAD_IMAGE = EventContent(WARNING, "ImageUnavailable", "registry says no")


async def events_of(client: Client, obj: Object) -> list[dict[str, Any]]:
    selector = f"involvedObject.uid={obj.metadata.uid}"
    path = f"/api/v1/namespaces/default/events?fieldSelector={selector}"
    found: list[dict[str, Any]] = json.loads(await client.raw(path))["items"]
    return found


async def some_object(client: Client) -> Object:
    return await client.create(core.CONFIG_MAPS, {"metadata": {"name": "web"}}, "default")


async def test_an_event_names_object_component_and_time() -> None:
    env = SimulatedEnvironment()
    async with embedded_server(env) as embedded:
        client = embedded.client("project/demo")
        obj = await some_object(client)
        await asyncio.sleep(60)
        await EventRecorder("instance-controller", env).record(client, obj, BAD_IMAGE)

        (event,) = await events_of(client, obj)

    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "default",
        "name": "web",
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
    }
    assert event["type"] == "Warning"
    assert event["reason"] == "ImageUnavailable"
    assert event["message"] == "registry says no"
    assert event["source"] == {"component": "instance-controller"}
    assert event["reportingComponent"] == "instance-controller"
    assert event["count"] == 1
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:01:00Z"


async def test_a_repeated_event_is_counted_also_after_a_restart() -> None:
    env = SimulatedEnvironment()
    async with embedded_server(env) as embedded:
        client = embedded.client("project/demo")
        obj = await some_object(client)
        for _ in range(2):
            recorder = EventRecorder("instance-controller", env)
            for _ in range(2):
                await recorder.record(client, obj, BAD_IMAGE)
                await asyncio.sleep(10)

        (event,) = await events_of(client, obj)

    assert event["count"] == 4
    assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["lastTimestamp"] == "2026-01-01T00:00:30Z"


async def test_an_event_that_has_expired_is_created_again() -> None:
    env = SimulatedEnvironment()
    async with embedded_server(env) as embedded:
        client = embedded.client("project/demo")
        obj = await some_object(client)
        recorder = EventRecorder("instance-controller", env)
        await recorder.record(client, obj, BAD_IMAGE)
        (event,) = await events_of(client, obj)
        await client.delete(core.EVENTS, event["metadata"]["name"], "default")
        await recorder.record(client, obj, BAD_IMAGE)

        (event,) = await events_of(client, obj)

    assert event["count"] == 1


async def test_a_one_time_event_is_recorded_once() -> None:
    env = SimulatedEnvironment()
    async with embedded_server(env) as embedded:
        client = embedded.client("project/demo")
        obj = await some_object(client)
        for _ in range(2):
            recorder = EventRecorder("instance-controller", env)
            for _ in range(2):
                await recorder.record_once(client, obj, EventContent(NORMAL, "Terminating", "Goes"))

        (event,) = await events_of(client, obj)

    assert event["count"] == 1


async def test_similar_messages_become_one_event_after_ten() -> None:
    env, registry = SimulatedEnvironment(), MetricsRegistry()
    async with embedded_server(env) as embedded:
        client = embedded.client("project/demo")
        obj = await some_object(client)
        recorder = EventRecorder("c", env, registry)
        for number in range(15):
            await recorder.record(client, obj, EventContent(WARNING, "Failed", f"attempt {number}"))

        events = await events_of(client, obj)

    combined = [each for each in events if each["message"].startswith("(combined from")]
    assert len(events) == 10
    assert [each["count"] for each in combined] == [6]
    assert combined[0]["message"].endswith("attempt 14")


async def test_events_of_one_object_are_rate_limited() -> None:
    env, registry = SimulatedEnvironment(), MetricsRegistry()
    async with embedded_server(env) as embedded:
        client = embedded.client("project/demo")
        obj = await some_object(client)
        recorder = EventRecorder("c", env, registry)
        for _ in range(40):
            await recorder.record(client, obj, BAD_IMAGE)
        (event,) = await events_of(client, obj)
        assert event["count"] == 25
        await asyncio.sleep(301)
        for _ in range(5):
            await recorder.record(client, obj, BAD_IMAGE)

        (event,) = await events_of(client, obj)

    assert event["count"] == 26
    outcomes = registry.counter("compute_events_total", "", "component", "outcome")
    assert outcomes.value("c", "limited") == 19


async def test_an_event_for_an_unreachable_plane_is_dropped_and_counted() -> None:
    env, registry, plane = SimulatedEnvironment(), MetricsRegistry(), FakePlane()
    obj = plane.put("a")
    with plane.down():
        await EventRecorder("c", env, registry).record(plane, obj, BAD_IMAGE)

    outcomes = registry.counter("compute_events_total", "", "component", "outcome")
    assert outcomes.value("c", "failed") == 1
    assert plane.calls == ["create", "create"]  # tried once more, then let be


async def test_a_refused_event_is_not_retried() -> None:
    async with controller_planes() as there:
        obj = await some_object(there.project)
        client, link = there.linked("project/demo")
        link.rules.append(forbid("POST"))
        registry = MetricsRegistry()
        await EventRecorder("c", there.env, registry).record(client, obj, BAD_IMAGE)

        assert await events_of(there.project, obj) == []
    outcomes = registry.counter("compute_events_total", "", "component", "outcome")
    assert outcomes.value("c", "failed") == 1
