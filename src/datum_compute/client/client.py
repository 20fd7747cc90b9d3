"""The client protocol over any transport.

One call is one request: a path from the :class:`Resource` below the plane's prefix, an
identity, a body encoded by msgspec. The response is decoded into the envelope of
:mod:`datum_compute.api.meta`, or raised as one of :mod:`.errors`. Nothing is retried or
cached here.

A watch is one request whose response does not end: chunks are split into lines, a line is
one event. The stream belongs to the ``async with`` block and is closed with it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from datum_compute import __version__
from datum_compute.api.meta import Fields, Object, ObjectList, WireObject
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.auth.credentials import ClientIdentity, TokenSource, credential_of
from datum_compute.client.call import AnyCall, ClientCall, RawCall
from datum_compute.client.decoder import DECODE_ERRORS, Decoder, UnreadableHandler
from datum_compute.client.protocol import EventType, Patch, Propagation, WatchEvent
from datum_compute.client.streams import InterruptibleStream
from datum_compute.client.transport import HttpRequest, HttpResponse, Transport, close_stream

USER_AGENT = f"datum-compute/{__version__}"

REQUEST_TIMEOUT = 30.0
"""Seconds for one object, and for the head of a watch. A guess: far above any healthy response.
A list may take twice as long, which is how long a Kubernetes API server works on one."""
WATCH_GRACE = 30.0
"""Seconds past a watch's own end after which a silent server counts as unreachable."""
FieldValidation = Literal["", "Strict", "Warn", "Ignore"]
"""How the server treats unknown fields; empty leaves that to the server."""

MAX_EVENT_BYTES = 16 * 2**20
"""No object is near this size (servers refuse 3 MiB), so a longer line is not an event."""


class ApiClient:
    """One plane of one server, with one identity."""

    def __init__(
        self,
        transport: Transport,
        *,
        cluster: str,
        prefix: str = "",
        token: TokenSource = "",
        user_agent: str = USER_AGENT,
        field_manager: str = "datum-compute",
        field_validation: FieldValidation = "",
        request_timeout: float = REQUEST_TIMEOUT,
        on_warning: Callable[[str], None] | None = None,
        on_unreadable: UnreadableHandler | None = None,
    ) -> None:
        self._transport = transport
        self._cluster = cluster
        self._prefix = prefix.rstrip("/")
        self._credential = credential_of(token)
        self._user_agent = user_agent
        self._write_options = _query(fieldManager=field_manager, fieldValidation=field_validation)
        self._timeout = request_timeout
        self._list_timeout = request_timeout * 2
        self.on_warning = on_warning
        self._decoder = Decoder(cluster, on_unreadable)

    @property
    def cluster(self) -> str:
        return self._cluster

    async def close(self) -> None:
        """Close the transport. For a client that is its only user."""
        await self._transport.close()

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        call = ClientCall("get", resource, namespace, name, cluster=self._cluster)
        call.check(named=True)
        return self._object(call, await self._call("GET", call))

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
        call = ClientCall("list", resource, namespace, cluster=self._cluster)
        call.check(named=False)
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit) if limit else "",
            resourceVersion=resource_version,
        ) + ((("continue", continue_token),) if continue_token else ())
        response = await self._call("GET", call, query, timeout=self._list_timeout)
        try:
            return self._decoder.page(resource.group_resource, response.body)
        except DECODE_ERRORS as error:
            raise _malformed(call, response.body, error) from error

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
        call = ClientCall("watch", resource, namespace, cluster=self._cluster)
        call.check(named=False)
        query = _query(
            watch="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            allowWatchBookmarks="true" if bookmarks else "",
            timeoutSeconds=str(timeout_seconds) if timeout_seconds else "",
        )
        response = await self._call("GET", call, query)
        deadline = None
        if timeout_seconds:
            deadline = asyncio.get_running_loop().time() + timeout_seconds + WATCH_GRACE
        async with (
            _chunks_of(response) as chunks,
            aclosing(self._events(call, chunks, deadline)) as events,
        ):
            yield events

    async def create(
        self, resource: Resource, body: WireObject, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        name, own_namespace = _key_of(body)
        namespace = namespace or (own_namespace if resource.namespaced else "")
        call = ClientCall("create", resource, namespace, name, cluster=self._cluster)
        call.check(named=False)
        # The collection's path; the name is for messages.
        path = resource.path(namespace)
        query = self._write_query(dry_run)
        response = await self._call("POST", call, query, _typed(resource, body), path=path)
        return self._object(call, response)

    async def update(
        self, resource: Resource, body: Object | WireObject, *, subresource: str = ""
    ) -> Object:
        """PUT. Not part of the protocol: controllers patch, which keeps unknown fields."""
        if isinstance(body, Object):
            name, namespace = body.name, body.namespace
            encoded: Any = msgspec.Raw(body.to_wire())
        else:
            name, namespace = _key_of(body)
            encoded = _typed(resource, body)
        call = ClientCall("update", resource, namespace, name, subresource, self._cluster)
        call.check(named=True)
        return self._object(call, await self._call("PUT", call, self._write_query(False), encoded))

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
        call = ClientCall("patch", resource, namespace, name, subresource, self._cluster)
        call.check(named=True)
        query = self._write_query(dry_run)
        try:
            response = await self._call(
                "PATCH", call, query, patch.body, content_type=patch.content_type
            )
        except errors.Invalid as invalid:
            if any(cause.field == "metadata.uid" for cause in invalid.causes):
                # Kubernetes reports another uid as an attempt to change it.
                raise errors.Conflict(
                    409, "Conflict", invalid.detail, call=call, causes=invalid.causes
                ) from invalid
            raise
        return self._object(call, response)

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
        call = ClientCall("delete", resource, namespace, name, cluster=self._cluster)
        call.check(named=True)
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        preconditions = dict(_query(uid=uid, resourceVersion=resource_version))
        if preconditions:
            options["preconditions"] = preconditions
        await self._call("DELETE", call, (), options)

    async def upgrade(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        subresource: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        outgoing: AsyncIterator[bytes],
    ) -> HttpResponse:
        call = ClientCall("create", resource, namespace, name, subresource, self._cluster)
        call.check(named=True)
        path = self._prefix + call.path
        request = HttpRequest("GET", path, tuple(query), headers, stream=outgoing)
        response = await self._send(request, call, self._timeout)
        if response.status != 101:
            await close_stream(response.stream)
            raise errors.Malformed(f"answered with HTTP {response.status}", call=call)
        return response

    async def raw(self, path: str) -> bytes:
        return (await self._get(path)).body

    async def post_raw(self, path: str, body: WireObject) -> bytes:
        """POST to a path below the plane's root that is no resource."""
        headers = {"accept": "application/json", "content-type": "application/json"}
        content = msgspec.json.encode(body)
        request = HttpRequest("POST", self._prefix + path, (), headers, content)
        call = RawCall("post", path, self._cluster)
        return (await self._send(request, call, self._timeout)).body

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        async with _chunks_of(await self._get(path)) as chunks:
            yield chunks

    async def _get(self, path: str) -> HttpResponse:
        path, _, query = path.partition("?")
        pairs = tuple(parse_qsl(query, keep_blank_values=True))
        headers = {"accept": "application/json, */*"}
        request = HttpRequest("GET", self._prefix + path, pairs, headers)
        call = RawCall("get", path, self._cluster)
        return await self._send(request, call, self._list_timeout)

    @asynccontextmanager
    async def stream_lines(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an open-ended text, without empty ones. Raises ``Disconnected`` where it
        ends within a line."""
        path, _, query = path.partition("?")
        pairs = tuple(parse_qsl(query, keep_blank_values=True))
        call = RawCall("get", path, self._cluster)
        response = await self._send(
            HttpRequest("GET", self._prefix + path, pairs, {"accept": "*/*"}), call, self._timeout
        )
        async with _chunks_of(response) as chunks, aclosing(_lines(chunks, None)) as lines:
            yield lines

    async def _call(
        self,
        method: str,
        call: ClientCall,
        query: tuple[tuple[str, str], ...] = (),
        body: Any = None,
        *,
        path: str = "",
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> HttpResponse:
        headers = {"accept": _accepted_form(call)}
        encoded = b""
        if body is not None:
            headers["content-type"] = content_type
            encoded = msgspec.json.encode(body)
        request = HttpRequest(method, self._prefix + (path or call.path), query, headers, encoded)
        return await self._send(request, call, self._timeout if timeout is None else timeout)

    async def _send(self, request: HttpRequest, call: AnyCall, timeout: float) -> HttpResponse:
        identity = await self._identity(call)
        response = await self._carry(request, identity, call, timeout)
        if response.status == 401:
            # Refused before any effect, so even a write may be repeated with a new identity.
            self._credential.invalidate(identity)
            renewed = await self._identity(call)
            if renewed != identity:
                await close_stream(response.stream)
                response = await self._carry(request, renewed, call, timeout)
        return await self._accepted(response, call)

    async def _identity(self, call: AnyCall) -> ClientIdentity:
        try:
            return self._credential.cached() or await self._credential.fetch()
        except errors.CredentialFailed as failure:
            raise errors.CredentialFailed(failure.detail, call=call) from failure

    async def _carry(
        self,
        request: HttpRequest,
        identity: ClientIdentity,
        call: AnyCall,
        timeout: float,
    ) -> HttpResponse:
        headers = {**request.headers, "user-agent": self._user_agent}
        if identity.token:
            headers["authorization"] = f"Bearer {identity.token}"
        sent = HttpRequest(
            request.method, request.path, request.query, headers, request.body, None, request.stream
        )
        try:
            return await self._transport.send(sent, timeout=timeout)
        except errors.TransportFailure as failure:
            raise failure.with_call(call) from failure

    async def _accepted(self, response: HttpResponse, call: AnyCall) -> HttpResponse:
        if self.on_warning and "warning" in response.headers:
            for text in _warnings(response.headers["warning"]):
                self.on_warning(text)
        if 200 <= response.status < 300 or response.status == 101:
            return response
        async with _chunks_of(response) as chunks:
            body = b"".join([chunk async for chunk in chunks])
        if response.status < 400:
            # A redirect is never followed: it could carry the credential elsewhere.
            raise errors.Malformed(f"answered with HTTP {response.status}", call=call)
        retry_after = response.headers.get("retry-after", "")
        raise errors.error_for(response.status, body, call=call, retry_after=retry_after)

    async def _events(
        self, call: ClientCall, chunks: AsyncIterator[bytes], deadline: float | None
    ) -> AsyncGenerator[WatchEvent, None]:
        try:
            async with aclosing(_lines(chunks, deadline)) as lines:
                async for line in lines:
                    event = self._event(call, line)
                    if event is not None:
                        yield event
        except errors.TransportFailure as failure:
            raise failure.with_call(call) from failure
        except errors.Unauthorized:
            # The credential expired during the watch; the next one must fetch it again.
            if (identity := self._credential.cached()) is not None:
                self._credential.invalidate(identity)
            raise

    def _event(self, call: ClientCall, line: bytes) -> WatchEvent | None:
        """The event of a line; None when its object cannot be read."""
        try:
            usual = _decode_usual_event(line)
        except DECODE_ERRORS:
            return self._unusual_event(call, line)
        known = _USUAL_EVENTS.get(usual.type)
        if known is None or not usual.object.metadata.name:
            return self._unusual_event(call, line)
        return WatchEvent(known, Object.from_fields(usual.object))

    def _unusual_event(self, call: ClientCall, line: bytes) -> WatchEvent | None:
        try:
            event = _decode_event(line)
            kind = EventType(event.type) if event.type != "ERROR" else None
        except (*DECODE_ERRORS, ValueError) as error:
            raise _malformed(call, line, error) from error
        if kind is None:
            raise errors.error_for_event(bytes(event.object), call=call)
        resource = call.resource.group_resource
        try:
            if kind is EventType.BOOKMARK:
                return WatchEvent(kind, self._decoder.embedded(resource, event.object))
            return WatchEvent(kind, self._decoder.item(resource, event.object))
        except DECODE_ERRORS as error:
            self._decoder.report(resource, f"{kind.value} event", str(error), skipped=True)
            return None

    def _object(self, call: ClientCall, response: HttpResponse) -> Object:
        try:
            return self._decoder.single(call.resource.group_resource, response.body)
        except DECODE_ERRORS as error:
            raise _malformed(call, response.body, error) from error

    def _write_query(self, dry_run: bool) -> tuple[tuple[str, str], ...]:
        return (*self._write_options, ("dryRun", "All")) if dry_run else self._write_options


class _UsualEvent(msgspec.Struct):
    type: str
    object: Fields


class _WireEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_USUAL_EVENTS = {each.value: each for each in EventType if each is not EventType.BOOKMARK}
_decode_usual_event = msgspec.json.Decoder(_UsualEvent).decode
_decode_event = msgspec.json.Decoder(_WireEvent).decode


async def _lines(
    chunks: AsyncIterator[bytes], deadline: float | None
) -> AsyncGenerator[bytes, None]:
    """Split chunks into lines. Raises ``TimedOut`` when the stream does not end in time."""
    stream = InterruptibleStream(chunks)
    timer: asyncio.TimerHandle | None = None
    if deadline is not None:
        late = errors.TimedOut("the server did not end the watch when it was due")
        timer = asyncio.get_running_loop().call_at(deadline, stream.interrupt, late)
    pending: list[bytes] = []
    size = 0
    try:
        async for chunk in stream:
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                if pending:
                    line = b"".join((*pending, line))
                    pending.clear()
                    size = 0
                if line:
                    yield line
            if rest:
                pending.append(rest)
                size += len(rest)
                if size > MAX_EVENT_BYTES:
                    raise errors.Malformed(f"a watch event exceeds {MAX_EVENT_BYTES} bytes")
    finally:
        if timer is not None:
            timer.cancel()
    if pending:
        raise errors.Disconnected("the stream ended within an event")


@asynccontextmanager
async def _chunks_of(response: HttpResponse) -> AsyncIterator[AsyncIterator[bytes]]:
    try:
        yield response.stream if response.stream is not None else _single(response.body)
    finally:
        await close_stream(response.stream)


async def _single(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _query(**values: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in values.items() if value)


def _key_of(body: WireObject) -> tuple[str, str]:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return "", ""
    return str(metadata.get("name") or ""), str(metadata.get("namespace") or "")


def _typed(resource: Resource, body: WireObject) -> WireObject:
    """The body with its apiVersion and kind, which custom resources require."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


def _warnings(header: str) -> list[str]:
    return [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(header)]


def _accepted_form(call: ClientCall) -> str:
    """For a kind that is read without its content there is no plain JSON after the form without:
    an answer with content would be kept in caches that promise to have none."""
    if not call.resource.metadata_only:
        return "application/json"
    kind = "PartialObjectMetadataList" if call.verb == "list" else "PartialObjectMetadata"
    return f"application/json;as={kind};g=meta.k8s.io;v=v1"


def _malformed(call: ClientCall, body: bytes, error: Exception) -> errors.Malformed:
    start = body[:200].decode("utf-8", "replace")
    return errors.Malformed(f"not an API answer ({error}): {start!r}", call=call)
