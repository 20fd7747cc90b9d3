"""The fixture of every case: a client, the kind of the suite, and a fresh namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api import core
from datum_compute.api.meta import Object, WireObject
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import Client, EventType, Patch, WatchEvent, merge

GROUP = "conformance.datumapis.com"
WIDGETS = Resource(GROUP, "v1", "widgets", "Widget")

EVENT_TIMEOUT = 20.0
"""Seconds to wait for what must come; a healthy server needs milliseconds."""


@dataclass(frozen=True)
class ConformanceTarget:
    """One server under test, and how to do to it what no client can."""

    client: ApiClient
    client_with: Callable[..., ApiClient]
    """Another client of the same plane, with other constructor arguments."""
    powerless_token: str
    """A token the server knows, of a user who may do nothing."""
    forget_history: Callable[[], Awaitable[None]]
    """Make all revisions up to now too old to be watched or listed at."""


@dataclass(frozen=True)
class ConformanceFixture:
    target: ConformanceTarget
    namespace: str
    other_namespace: str

    @property
    def client(self) -> ApiClient:
        return self.target.client

    async def create(self, name: str, spec: Any = None, **metadata: Any) -> Object:
        body = {"metadata": {"name": name, **metadata}, "spec": spec or {}}
        return await self.client.create(WIDGETS, body, self.namespace)

    async def create_many(self, *names: str, **metadata: Any) -> list[Object]:
        return [await self.create(name, **metadata) for name in names]

    async def get(self, name: str) -> Object:
        return await self.client.get(WIDGETS, name, self.namespace)

    async def patch(self, name: str, patch: Patch | dict[str, Any], **options: Any) -> Object:
        if isinstance(patch, dict):
            patch = merge(patch)
        return await self.client.patch(WIDGETS, name, patch, self.namespace, **options)

    async def delete(self, name: str, **options: Any) -> None:
        await self.client.delete(WIDGETS, name, self.namespace, **options)

    async def names(self, **options: Any) -> list[str]:
        page = await self.client.list(WIDGETS, self.namespace, **options)
        return [item.name for item in page.items]

    async def revision(self) -> str:
        return (await self.client.list(WIDGETS, self.namespace)).resource_version

    async def exists(self, name: str) -> bool:
        try:
            await self.get(name)
        except errors.NotFound:
            return False
        return True


async def open_fixture(target: ConformanceTarget, number: int) -> ConformanceFixture:
    """Define the kind and create two namespaces for this case alone."""
    await ensure_kind(target.client)
    names = [f"case-{number}", f"case-{number}-other"]
    for name in names:
        await target.client.create(core.NAMESPACES, {"metadata": {"name": name}})
    return ConformanceFixture(target, *names)


async def ensure_kind(client: Client) -> None:
    try:
        await client.create(core.CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
    except errors.AlreadyExists:
        pass  # by an earlier case
    await wait_served(client)


async def wait_served(client: Client, resource: Resource = WIDGETS) -> None:
    """A real server serves a kind some 40 ms after it was defined, or after its own start, and
    then answers 429 for a moment ("storage is (re)initializing")."""
    async with asyncio.timeout(EVENT_TIMEOUT):
        while True:
            try:
                await client.list(resource)
                return
            except (errors.NotServed, errors.Throttled, errors.TransportFailure):
                await asyncio.sleep(0.02)


async def next_event(events: AsyncIterator[WatchEvent], *, bookmarks: bool = False) -> WatchEvent:
    """The next event, by default the next that is no bookmark."""
    try:
        async with asyncio.timeout(EVENT_TIMEOUT):
            async for event in events:
                if bookmarks or event.type != EventType.BOOKMARK:
                    return event
    except TimeoutError:
        raise AssertionError("no event came") from None
    raise AssertionError("the watch ended before the event came")


async def next_events(events: AsyncIterator[WatchEvent], count: int) -> list[tuple[str, str]]:
    """The next events as pairs of type and name."""
    found = [await next_event(events) for _ in range(count)]
    return [(event.type.value, event.object.name) for event in found]


def content(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if raw else None


def revision_of(obj: Object) -> int:
    return int(obj.metadata.resource_version)


def causes(error: errors.StatusError) -> set[tuple[str, str]]:
    return {(cause.field, cause.reason) for cause in error.causes}


_CONDITION = {
    "type": "object",
    "required": ["type", "status"],
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "string"},
        "message": {"type": "string"},
    },
}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 1, "minimum": 1, "maximum": 10},
                "color": {"type": "string", "enum": ["red", "green", "blue"]},
                "note": {"type": "string"},
                "options": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "box": {
                    "type": "object",
                    "properties": {"height": {"type": "integer", "default": 4}},
                },
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "minLength": 1, "maxLength": 20},
                            "count": {"type": "integer", "default": 1},
                        },
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string", "enum": ["Waiting", "Running"]},
                "observed": {"type": "integer"},
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": _CONDITION,
                },
            },
        },
    },
}

DEFINITION: dict[str, Any] = {
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
            }
        ],
    },
}


async def get_subresource(
    client: Client, resource: Resource, name: str, namespace: str, *, subresource: str
) -> Object:
    """For ``status`` the whole object, for ``scale`` a Scale."""
    return Object.from_wire(await client.raw(resource.path(namespace, name, subresource)))


def strategic_merge(body: WireObject) -> Patch:
    """A merge that knows which lists have keys; only built-in kinds have it."""
    return Patch("application/strategic-merge-patch+json", body)


def body_of(world: ConformanceFixture, name: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": world.namespace, **metadata}, "spec": spec}
