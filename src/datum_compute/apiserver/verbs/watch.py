"""watch: a stream of changes, in the order of the log.

Opening a watch is one step without awaiting: the versions of the current state (or of what
happened since the given revision) are chosen, and the watcher is added to the table, so nothing
is missed or doubled in between. From then on the store offers each committed event once; a
watcher drops those at or before the revision it began with. The state it begins with is encoded
slice by slice as the client takes it, and goes before what was offered meanwhile.

An event is encoded once for all watchers that want the same form. Each watcher's buffer is
bounded, and the buffers of a user's watchers in sum: a client too slow for that gets 410 and must
list again.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.apiserver import errors
from datum_compute.apiserver.codec import decode_json, encode_json
from datum_compute.apiserver.printing import tables
from datum_compute.apiserver.printing.renderer import Renderer
from datum_compute.apiserver.request.context import RequestContext
from datum_compute.apiserver.request.flow_control import SLICE_BYTES
from datum_compute.apiserver.request.selection import Selection
from datum_compute.apiserver.storage.protocol import Managed, Store, StoredObject, StoreEvent
from datum_compute.client.transport import HttpResponse
from datum_compute.env import Environment
from datum_compute.log import get_logger

BUFFER_BYTES = 16 * 2**20
"""Bytes buffered for one slow watcher. A guess: some ten thousand ordinary objects."""

BOOKMARK_SECONDS = 60.0
MIN_WATCH_SECONDS = 1800
"""A watch without ``timeoutSeconds`` lasts this long and up to as long again, as upstream."""

_log = get_logger(__name__)

LineEncoder = Callable[[str, StoredObject, dict[Any, bytes]], bytes]
"""Event type and object to one line of the stream."""

Content = Callable[[StoredObject], tuple[bytes, Managed]]
"""The bytes and the managed fields of any version of an object."""


class Watcher:
    """One open watch. Iterating gives chunks; each chunk holds whole lines."""

    def __init__(
        self,
        call: RequestContext,
        selection: Selection,
        line: LineEncoder,
        content: Content,
        after: int,
    ) -> None:
        self._table = call.table
        self._selection = selection
        self._content = content
        self._line = line
        self._after = after
        self._initial: Iterator[bytes] | None = None
        self._has_begun = False
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._usage = call.usage
        self._usage.open_watch()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._table.add_sink(self)

    def offer(self, event: StoreEvent, shared: dict[Any, bytes]) -> None:
        if event.revision <= self._after or self._selection.excludes_event(event):
            return
        kind = event_type(event, self._selection)
        if kind:
            self.push(self._line(kind, event_object(kind, event, self._content, shared), shared))

    def push(self, chunk: bytes) -> None:
        if self._ended:
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        if not self._usage.buffer(len(chunk)) or self._size > BUFFER_BYTES:
            self._expire()
        self._wake()

    def _expire(self) -> None:
        self._drop()
        self._chunks.append(error_line(errors.expired("too slow to follow this watch")))
        self.end()

    def _drop(self) -> None:
        """Give back what is buffered."""
        self._initial = None
        self._chunks.clear()
        self._usage.buffer(-self._size)
        self._size = 0

    def end(self) -> None:
        """No more events; what is buffered is still sent."""
        if self._ended:
            return
        self._ended = True
        self._usage.close_watch()
        self._table.remove_sink(self)
        if self._timer is not None:
            self._timer.cancel()
        self._wake()

    def schedule(self, when: float, action: Callable[[], None]) -> None:
        """Run ``action`` at a time of the loop, unless the watch has ended before."""
        self._timer = asyncio.get_running_loop().call_at(when, action)

    def begin_with(self, lines: Iterator[bytes]) -> None:
        """The state a watch begins with; it may be larger than the buffer."""
        self._initial = lines

    def __aiter__(self) -> Watcher:
        return self

    async def __anext__(self) -> bytes:
        if self._initial is not None:
            if self._has_begun:
                await asyncio.sleep(0)  # other requests go on between two slices
            self._has_begun = True
            chunk = self._next_initial()
            if chunk:
                return chunk
        while not self._chunks:
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._take()

    def _next_initial(self) -> bytes:
        parts, size = [], 0
        try:
            for line in self._initial or ():
                parts.append(line)
                size += len(line)
                if size >= SLICE_BYTES:
                    return b"".join(parts)
        except Exception as error:  # noqa: BLE001 - the client can list again, whatever it was
            # Above all a version that has left the history because the client was slow.
            _log.info(
                "watch expired at its begin", resource=self._table.resource, error=repr(error)
            )
            self._expire()
            return b""
        self._initial = None
        return b"".join(parts)

    def _take(self) -> bytes:
        """All that is buffered, but no more than a slice or, if that is larger, one event: what is
        taken leaves the account, and an event alone shares its bytes with other watches."""
        taken = [self._chunks.popleft()]
        size = len(taken[0])
        while self._chunks and size + len(self._chunks[0]) <= SLICE_BYTES:
            taken.append(self._chunks.popleft())
            size += len(taken[-1])
        # The line that says why a watch ended is not in the account.
        size = min(size, self._size)
        self._size -= size
        self._usage.buffer(-size)
        return taken[0] if len(taken) == 1 else b"".join(taken)

    async def aclose(self) -> None:
        """The client reads no more."""
        self._drop()
        self.end()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def watch(call: RequestContext, renderer: Renderer, store: Store, env: Environment) -> HttpResponse:
    """Open a watch."""
    _check_options(call)
    selection = Selection(call, store.value)
    plane = call.plane.store
    line = _line_encoder(call, renderer, store)
    revision = call.number("resourceVersion") or 0
    watcher = Watcher(call, selection, line, store.content, max(revision, plane.revision))
    if revision and revision < plane.compacted and not call.flag("sendInitialEvents"):
        error = f"too old resource version: {revision} ({plane.compacted})"
        watcher.begin_with(iter([error_line(errors.expired(error))]))
        watcher.end()
    else:
        lines = _first_lines(call, selection, line, store.content, revision)
        if call.form.transform == "Table":
            # The first line carries the columns, so it is encoded before any event is offered.
            lines = chain((next(lines, b""),), lines)
        watcher.begin_with(lines)
        _WatchTimer(call, watcher, env).start()
    return HttpResponse(200, errors.JSON_HEADERS, stream=watcher)


def _check_options(call: RequestContext) -> None:
    match, path = call.query.get("resourceVersionMatch", ""), "resourceVersionMatch"
    faults = []
    if "sendInitialEvents" in call.query and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        faults.append(fields.forbidden(path, detail))
    if match and "sendInitialEvents" not in call.query:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        faults.append(fields.forbidden(path, detail))
    if match not in ("", "NotOlderThan"):
        faults.append(fields.not_supported(path, match, ["NotOlderThan"]))
    if call.query.get("continue"):
        detail = "resourceVersionMatch is forbidden when continue is provided"
        faults.append(fields.forbidden(path, detail))
    if faults:
        raise errors.invalid("ListOptions", "meta.k8s.io", "", faults)


def _first_lines(
    call: RequestContext, selection: Selection, line: LineEncoder, content: Content, revision: int
) -> Iterator[bytes]:
    """What a watch begins with: chosen now, encoded when it is asked for."""
    current = call.plane.store.revision
    asked = call.flag("sendInitialEvents")
    if asked or (not revision and "sendInitialEvents" not in call.query):
        rows = list(call.table.in_order(call.namespace))
        marked = asked and call.flag("allowWatchBookmarks")
        end = bookmark_line(call, current, _initial_end(call)) if marked else b""
        return _current_lines(rows, selection, line, end)
    return _past_lines(call.table.since(revision) if revision else (), selection, line, content)


def _initial_end(call: RequestContext) -> dict[str, str]:
    """The annotations of the bookmark after the initial events. Clients of Go that list by a watch
    take the kind of their list from the second one."""
    kind, version = call.kind.list_kind, call.kind.resource.api_version
    if call.form.transform.startswith("Partial"):
        kind, version = "PartialObjectMetadataList", f"{tables.META_GROUP}/{call.form.version}"
    items: Any = None if call.kind.builtin else []
    empty: dict[str, Any] = {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}
    blueprint = base64.b64encode(encode_json(empty) + b"\n").decode()
    return {
        "k8s.io/initial-events-end": "true",
        "kubernetes.io/initial-events-list-blueprint": blueprint,
    }


def _current_lines(
    rows: Sequence[StoredObject], selection: Selection, line: LineEncoder, end: bytes
) -> Iterator[bytes]:
    for stored in rows:
        if selection.matches(stored):
            yield line("ADDED", stored, {})
    yield end


def _past_lines(
    events: Sequence[StoreEvent], selection: Selection, line: LineEncoder, content: Content
) -> Iterator[bytes]:
    for event in events:
        kind = event_type(event, selection)
        if kind:
            yield line(kind, event_object(kind, event, content, {}), {})


def event_type(event: StoreEvent, selection: Selection) -> str:
    """What a change is to a client that sees only the selection; empty if nothing."""
    before = event.before is not None and selection.matches(event.before)
    after = not event.deleted and selection.matches(event.after)
    if after:
        return "MODIFIED" if before else "ADDED"
    return "DELETED" if before else ""


_LEFT = "left the selection"


def event_object(
    kind: str, event: StoreEvent, content: Content, shared: dict[Any, bytes]
) -> StoredObject:
    """The version an event carries: the new one; of an object that left the selection, the last
    that was in it, with the revision at which it left."""
    before = event.before
    if kind != "DELETED" or event.deleted or before is None:
        return event.after
    last, managed = content(before)
    raw = shared.get(_LEFT)
    if raw is None:
        obj = decode_json(last)
        obj["metadata"]["resourceVersion"] = str(event.revision)
        raw = shared[_LEFT] = encode_json(obj)
    return msgspec.structs.replace(before, revision=event.revision, raw=raw, managed=managed)


def _line_encoder(call: RequestContext, renderer: Renderer, store: Store) -> LineEncoder:
    kind, form = call.kind, call.form
    if form.transform == "Table":
        return _TableLines(renderer, store)
    shared_key = (kind, form, call.request.with_managed_fields)

    def line(event: str, stored: StoredObject, shared: dict[Any, bytes]) -> bytes:
        key = (shared_key, event)
        found = shared.get(key)
        if found is None:
            raw = renderer.stored(stored, store.content(stored))
            if form.transform:
                raw = encode_json(tables.partial_metadata(decode_json(raw), form.version))
            found = shared[key] = b'{"type":"%b","object":%b}\n' % (event.encode(), raw)
        return found

    return line


class _TableLines:
    """Lines for one watcher whose first event carries the columns."""

    def __init__(self, renderer: Renderer, store: Store) -> None:
        self._renderer = renderer
        self._store = store
        self._headed = True

    def __call__(self, event: str, stored: StoredObject, shared: dict[Any, bytes]) -> bytes:
        key = (self._renderer.table_key, event, self._headed)
        found = shared.get(key)
        if found is None:
            obj = decode_json(self._renderer.stored(stored, self._store.content(stored)))
            table = self._renderer.table([obj], str(stored.revision), headed=self._headed)
            found = shared[key] = encode_json({"type": event, "object": table}) + b"\n"
        self._headed = False
        return found


def error_line(error: errors.ApiError) -> bytes:
    return encode_json({"type": "ERROR", "object": error.to_wire()}) + b"\n"


def bookmark_line(
    call: RequestContext, revision: int, annotations: dict[str, str] | None = None
) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    kind, version = call.kind.resource.kind, call.kind.resource.api_version
    if call.form.transform.startswith("Partial"):
        kind, version = "PartialObjectMetadata", f"{tables.META_GROUP}/{call.form.version}"
    obj = {"kind": kind, "apiVersion": version, "metadata": metadata}
    return encode_json({"type": "BOOKMARK", "object": obj}) + b"\n"


class _WatchTimer:
    """Sends bookmarks and ends the watch at its timeout."""

    def __init__(self, call: RequestContext, watcher: Watcher, env: Environment) -> None:
        self._call = call
        self._watcher = watcher
        self._bookmarks = call.flag("allowWatchBookmarks")
        seconds = call.number("timeoutSeconds")
        if not seconds:
            seconds = MIN_WATCH_SECONDS + env.random("apiserver.watch").randrange(MIN_WATCH_SECONDS)
        self._end = asyncio.get_running_loop().time() + seconds

    def start(self) -> None:
        now = asyncio.get_running_loop().time()
        when = min(now + BOOKMARK_SECONDS, self._end) if self._bookmarks else self._end
        self._watcher.schedule(when, self._tick)

    def _tick(self) -> None:
        if self._bookmarks:
            plane = self._call.plane.store
            # Only what has been delivered: an open batch is ahead of the watchers.
            self._watcher.push(bookmark_line(self._call, plane.committed))
        if asyncio.get_running_loop().time() >= self._end:
            self._watcher.end()
        else:
            self.start()
