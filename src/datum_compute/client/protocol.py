"""The client of one API server (one plane).

Controllers, stand-ins, providers and the CLI know only this protocol. All methods raise
:mod:`datum_compute.client.errors`; none retries, because only the caller knows whether a
retry makes sense. Collections are never deleted as a whole: a delete names its object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

import msgspec

from datum_compute.api.meta import Object, ObjectList, WireObject
from datum_compute.api.scheme import Resource
from datum_compute.client.transport import HttpResponse


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, frozen=True):
    type: EventType
    object: Object
    """For a bookmark only ``metadata.resource_version`` has meaning."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A change to part of an object: build it with one of the functions below."""

    content_type: str
    body: Any
    """JSON values; :class:`msgspec.Raw` where a subtree is copied."""


def merge(body: WireObject) -> Patch:
    """RFC 7386: given fields replace, null removes, lists are replaced whole."""
    return Patch("application/merge-patch+json", body)


def json_patch(operations: list[dict[str, Any]]) -> Patch:
    """RFC 6902, with ``test`` as a precondition."""
    return Patch("application/json-patch+json", operations)


Propagation = Literal["Background", "Foreground", "Orphan"]


class Client(Protocol):
    """One plane, one identity."""

    @property
    def cluster(self) -> str:
        """The plane's name, for messages and logs."""
        ...

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...

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
        """One page; without a limit, everything. An empty namespace means all of them."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        timeout_seconds: int = 0,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        """Every change after ``resource_version``, in order; with an empty one, the present
        objects as ADDED first. Entering raises what opening raises; iterating ends when the
        server ends the watch properly, and raises ``Expired`` or a ``TransportFailure``
        otherwise."""
        ...

    async def create(
        self, resource: Resource, body: WireObject, namespace: str = "", *, dry_run: bool = False
    ) -> Object: ...

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
        """A merge patch that carries ``metadata.resourceVersion`` (and ``uid``) is
        conditional: ``Conflict`` when the object has changed."""
        ...

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
        """Request deletion; the object stays until its finalizers are removed."""
        ...

    async def raw(self, path: str) -> bytes:
        """GET of a path below the plane's root, for discovery, health and subresources."""
        ...

    def stream(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The same, read as it comes: with ``follow=true`` in the path's query the answer has no
        end. Entering and iterating raise as those of a watch do."""
        ...

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
        """Switch to the protocol that ``headers`` ask for; the caller closes the stream of the
        response."""
        ...


class ReadForwarder:
    """The reading half of a client in front of ``client``, for one that changes writes alone."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def cluster(self) -> str:
        return self._client.cluster

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._client.get(resource, name, namespace)

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
        return await self._client.list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
        )

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        timeout_seconds: int = 0,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent]]:
        return self._client.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            bookmarks=bookmarks,
            timeout_seconds=timeout_seconds,
        )

    async def raw(self, path: str) -> bytes:
        return await self._client.raw(path)

    def stream(self, path: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._client.stream(path)

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
        return await self._client.upgrade(
            resource, name, namespace, subresource, query, headers, outgoing
        )
