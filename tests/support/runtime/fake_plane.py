"""A plane small enough to be scripted: it lags, is unreachable, forgets, refuses kinds.

It is a client, the seam below the runtime, and not a model of a whole API server; what
needs a real one uses the embedded server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api.meta import Object, ObjectList, WireObject
from datum_compute.api.scheme import Resource
from datum_compute.api.selectors import LabelSelector
from datum_compute.client import errors
from datum_compute.client.protocol import EventType, Patch, Propagation, WatchEvent
from datum_compute.client.transport import HttpResponse

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
PARTS = Resource("example.com", "v1", "parts", "Part")

Wire = dict[str, Any]


class FakePlane:
    def __init__(self, cluster: str = "plane", *, first_revision: int = 1) -> None:
        self.cluster = cluster
        self.revision = first_revision
        self.unserved: set[str] = set()
        self.open_watches = 0
        self.calls: list[str] = []
        """The verbs of all calls, reads included."""
        self._down = 0  # how many blocks hold it down, or back
        self._lagging = 0
        self._objects: dict[tuple[str, str, str], Wire] = {}
        self._history: list[_Entry] = []
        self._forgotten = 0  # entries no longer in the history, and the last revision of them
        self._compacted = 0
        self._uids = 0
        self._wakers: list[asyncio.Future[None]] = []

    # What a test does to it.

    def put(
        self, name: str, *, resource: Resource = WIDGETS, namespace: str = "default", **fields: Any
    ) -> Object:
        """Another client creates or replaces an object; ``metadata`` is merged."""
        key = (resource.plural, namespace, name)
        old = self._objects.get(key)
        metadata = dict(old["metadata"]) if old else self._new_metadata(namespace, name)
        metadata |= fields.pop("metadata", {})
        wire = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return self._store(key, wire | fields, EventType.MODIFIED if old else EventType.ADDED)

    def remove(
        self, name: str, *, resource: Resource = WIDGETS, namespace: str = "default"
    ) -> None:
        key = (resource.plural, namespace, name)
        wire = self._objects.pop(key)
        self.revision += 1
        wire["metadata"]["resourceVersion"] = str(self.revision)
        self._happened(resource.plural, EventType.DELETED, wire)

    def bookmark(self, resource: Resource = WIDGETS) -> None:
        wire = {"metadata": {"resourceVersion": str(self.revision)}}
        self._history.append(_Entry(self.revision, resource.plural, EventType.BOOKMARK, wire))
        self._wake()

    def forget_history(self) -> None:
        """Compaction: watches from before now expire."""
        self._compacted = self.revision
        self._forgotten += len(self._history)
        self._history.clear()

    @contextmanager
    def down(self) -> Iterator[None]:
        self._down += 1
        self._wake()
        try:
            yield
        finally:
            self._down -= 1

    @contextmanager
    def lagging(self) -> Iterator[None]:
        """Writes happen, watches do not deliver them."""
        self._lagging += 1
        try:
            yield
        finally:
            self._lagging -= 1
            self._wake()

    def wire(self, name: str, resource: Resource = WIDGETS, namespace: str = "default") -> Wire:
        return self._objects[(resource.plural, namespace, name)]

    def names(self, resource: Resource = WIDGETS) -> list[str]:
        return sorted(name for plural, _, name in self._objects if plural == resource.plural)

    # The client.

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        await self._called("get", resource)
        return _decoded(self._find(resource, name, namespace))

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectList:
        await self._called("list", resource)
        matches = LabelSelector.parse(label_selector).matches
        found = [
            _decoded(wire)
            for (plural, space, _), wire in sorted(self._objects.items(), key=lambda i: i[0])
            if plural == resource.plural
            and namespace in ("", space)
            and matches(wire["metadata"].get("labels", {}))
        ]
        start = int(continue_token or 0)
        end = start + limit if limit else len(found)
        token = str(end) if end < len(found) else ""
        return ObjectList(found[start:end], str(self.revision), token, None)

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        timeout_seconds: int = 0,
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        await self._called("watch", resource)
        self.open_watches += 1
        try:
            matches = LabelSelector.parse(label_selector).matches
            yield self._events(resource.plural, int(resource_version), matches, timeout_seconds)
        finally:
            self.open_watches -= 1

    async def create(
        self, resource: Resource, body: WireObject, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        await self._called("create", resource)
        wire = json.loads(msgspec.json.encode(body))
        name = wire["metadata"]["name"]
        key = (resource.plural, namespace, name)
        if key in self._objects:
            raise errors.AlreadyExists(409, "AlreadyExists", f"{name} exists")
        wire |= {"apiVersion": resource.api_version, "kind": resource.kind}
        wire["metadata"] = self._new_metadata(namespace, name) | wire["metadata"]
        return self._store(key, wire, EventType.ADDED)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        await self._called("patch", resource)
        old = self._find(resource, name, namespace)
        change = json.loads(msgspec.json.encode(patch.body))
        expected = change.get("metadata", {}).get("resourceVersion")
        if expected not in (None, old["metadata"]["resourceVersion"]):
            raise errors.Conflict(409, "Conflict", f"{name} has moved on")
        merged = _merged(old, change)
        if merged == old:
            return _decoded(old)
        return self._store((resource.plural, namespace, name), merged, EventType.MODIFIED)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation = "Background",
    ) -> None:
        await self._called("delete", resource)
        self._find(resource, name, namespace)
        self.remove(name, resource=resource, namespace=namespace)

    async def raw(self, path: str) -> bytes:
        raise errors.NotFound(404, "NotFound", f"{path} not found")

    async def upgrade(self, *call: Any, **more: Any) -> HttpResponse:
        raise errors.NotServed(404, "NotServed", f"{call} is not served")

    def stream(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise errors.NotFound(404, "NotFound", f"{path} not found")

    async def _called(self, verb: str, resource: Resource) -> None:
        self.calls.append(verb)
        await asyncio.sleep(0.001)
        self._check_up()
        if resource.plural in self.unserved:
            raise errors.NotServed(404, "NotServed", f"{resource} is not served")

    def _check_up(self) -> None:
        if self._down:
            raise errors.ConnectFailed("the plane is down")

    def _find(self, resource: Resource, name: str, namespace: str) -> Wire:
        try:
            return self._objects[(resource.plural, namespace, name)]
        except KeyError:
            raise errors.NotFound(404, "NotFound", f"{name} not found") from None

    def _new_metadata(self, namespace: str, name: str) -> Wire:
        self._uids += 1
        metadata = {"name": name, "uid": f"uid-{self._uids}"}
        return metadata | ({"namespace": namespace} if namespace else {})

    def _store(self, key: tuple[str, str, str], wire: Wire, event: EventType) -> Object:
        self.revision += 1
        wire["metadata"] = wire["metadata"] | {"resourceVersion": str(self.revision)}
        before = self._objects.get(key)
        self._objects[key] = wire
        self._happened(key[0], event, wire, before)
        return _decoded(wire)

    def _happened(
        self, plural: str, event: EventType, wire: Wire, before: Wire | None = None
    ) -> None:
        copied = json.loads(json.dumps(wire))
        labels = _labels(before) if before is not None else None
        self._history.append(_Entry(self.revision, plural, event, copied, labels))
        self._wake()

    def _wake(self) -> None:
        wakers, self._wakers = self._wakers, []
        for waker in wakers:
            if not waker.done():
                waker.set_result(None)

    async def _events(
        self, plural: str, revision: int, matches: Any, timeout_seconds: int
    ) -> AsyncIterator[WatchEvent]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        if revision < self._compacted:
            raise errors.Expired(410, "Expired", "too old")
        number = self._forgotten
        while loop.time() < deadline:
            self._check_up()
            while not self._lagging and number < self._forgotten + len(self._history):
                if number < self._forgotten:
                    raise errors.Expired(410, "Expired", "forgotten before it was sent")
                entry = self._history[number - self._forgotten]
                number += 1
                if entry.plural != plural or entry.revision <= revision:
                    continue
                event = _selected(entry, matches)
                if event is not None:
                    yield WatchEvent(event, _decoded(entry.wire))
                    self._check_up()
            waker = loop.create_future()
            self._wakers.append(waker)
            try:
                async with asyncio.timeout_at(deadline):
                    await waker
            except TimeoutError:
                return


@dataclass(frozen=True)
class _Entry:
    revision: int
    plural: str
    event: EventType
    wire: Wire
    labels_before: dict[str, str] | None = None


def _selected(entry: _Entry, matches: Callable[[dict[str, str]], bool]) -> EventType | None:
    """What a watch with a selector delivers: one that begins to match is new, one that ceases to
    match is gone."""
    if entry.event is EventType.BOOKMARK:
        return entry.event
    now = matches(_labels(entry.wire))
    if entry.event is EventType.DELETED:
        return EventType.DELETED if now else None
    before = entry.labels_before is not None and matches(entry.labels_before)
    if now:
        return EventType.MODIFIED if before else EventType.ADDED
    return EventType.DELETED if before else None


def _labels(wire: Wire) -> dict[str, str]:
    labels: dict[str, str] = wire["metadata"].get("labels", {})
    return labels


def _decoded(wire: Mapping[str, Any]) -> Object:
    return Object.from_wire(json.dumps(wire).encode())


def _merged(old: Any, change: Any) -> Any:
    if not isinstance(change, dict) or not isinstance(old, dict):
        return change
    merged = dict(old)
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(old.get(key, {}), value)
    return merged
