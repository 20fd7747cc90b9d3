"""Keeps one cache equal to one cluster's collection: list, watch, and start over.

The life of a reflector: list in pages, give the cache the whole, watch from the revision of
that list, hand on each event. A watch that ends, in order or not, is reopened from the last
revision seen, so nothing is missed and nothing is listed twice. Only a server that has
forgotten that revision makes it list again, and the cache reports the difference.

No failure ends it. It reports its state through the cache's ``state`` and ``message``,
logs when that changes, and tries again with growing, jittered delay; a kind that the server
does not serve is retried in the same way. The content of the cache stays meanwhile.
"""

from __future__ import annotations

import asyncio
import logging

from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.backoff import RECONNECT
from datum_compute.runtime.cache.cache import Cache, CacheState

logger = get_logger(__name__)

PAGE = 500
"""Objects per page of a list: as Kubernetes' own clients."""

WATCH_SECONDS = (300, 600)
"""A watch is ended by the server after a time drawn from here, so that a dead connection
is noticed; Kubernetes' own clients use the same spread."""

QUICK_SECONDS = 1.0
"""A watch that ends sooner than this without an event is not worth reopening at once. One
that lasted longer and then broke is the first failure, not one more of many."""


class Reflector:
    def __init__(self, client: Client, cache: Cache, env: Environment) -> None:
        self._client = client
        self._cache = cache
        self._random = env.random("runtime.reflector")
        self._failures = 0
        self._expired = 0
        """How often in a row the server had no history since the revision."""

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._cache.resource_version:
                    await self._list()
                await self._watch()
            except errors.Expired as error:
                # The server keeps a limited history. It answers, so failures to reach it before
                # count no more; that it expires again and again is waited for all the same.
                self._cache.resource_version = ""
                self._failures, self._expired = self._expired, self._expired + 1
                await self._pause(CacheState.INTERRUPTED, error)
            except (errors.NotServed, errors.NotFound) as error:
                self._cache.resource_version = ""
                await self._pause(CacheState.NOT_SERVED, error)
            except errors.ClientError as error:
                if isinstance(error, errors.Invalid | errors.Malformed | errors.ServerError):
                    # The server may fail because of the revision.
                    self._cache.resource_version = ""
                await self._pause(CacheState.INTERRUPTED, error)

    async def _list(self) -> None:
        try:
            objects, resource_version = await self._pages(PAGE)
        except errors.Expired:
            # The revision of the first page expired before the last page was requested,
            # and may do so again: one answer is consistent in itself.
            objects, resource_version = await self._pages(0)
        self._cache.lists += 1
        self._cache.replace(objects, resource_version)

    async def _pages(self, limit: int) -> tuple[list[Object], str]:
        """Everything, and the revision to watch from: that of the first page, so that nothing
        is missed should a server's later pages be younger."""
        objects: list[Object] = []
        token = resource_version = ""
        while True:
            page = await self._client.list(
                self._cache.resource,
                label_selector=self._cache.label_selector,
                limit=limit,
                continue_token=token,
            )
            objects += page.items
            resource_version = resource_version or page.resource_version
            token = page.continue_token
            if not token:
                return objects, resource_version

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        opened = loop.time()
        cache = self._cache
        before = cache.resource_version
        async with self._client.watch(
            cache.resource,
            resource_version=before,
            label_selector=cache.label_selector,
            timeout_seconds=self._random.randint(*WATCH_SECONDS),
        ) as events:
            cache.watches += 1
            self._report(CacheState.CURRENT, "")
            try:
                async for event in events:
                    self._failures = self._expired = 0
                    cache.apply(event)
            finally:
                if loop.time() - opened >= QUICK_SECONDS:
                    self._failures = self._expired = 0  # however it ended, the server was reachable
        if cache.resource_version == before and loop.time() - opened < QUICK_SECONDS:
            raise errors.Disconnected("the watch was ended as soon as it was opened")
        self._failures = self._expired = 0

    async def _pause(self, state: CacheState, error: errors.ClientError) -> None:
        self._cache.refused = isinstance(error, errors.StatusError)
        self._report(state, str(error))
        delay = RECONNECT.delay(self._failures, self._random.random())
        if isinstance(error, errors.Throttled) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        self._failures += 1
        await asyncio.sleep(delay)

    def _report(self, state: CacheState, message: str) -> None:
        cache = self._cache
        if cache.state is not state:
            level = logging.DEBUG if state is CacheState.CURRENT else logging.WARNING
            logger.log(
                level,
                "watch state changed",
                cluster=self._client.cluster,
                resource=str(cache.resource),
                state=state.value,
                reason=message[:300],
            )
        cache.state = state
        cache.message = message
