"""The reading half of a client that stands before another one.

Whoever watches over the writes of a client (notes them, judges them) lets its reads through
as they are, and says so by extending this.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from datum_compute.api.meta import Object, ObjectList
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client, WatchEvent


class ReadForwarder:
    """Reads of ``client``, unchanged."""

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
