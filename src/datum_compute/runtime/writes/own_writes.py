"""Read your own writes.

A cache lags behind the server. A reconcile that runs again before the cache has seen what its
last run wrote would decide on a state that it has itself changed. So while a reconcile runs,
the client of each cluster records its writes; before the same key runs again, the caches must
have seen them. When they take too long, the object is read live and put into the cache.

By the same record a watch can leave out the controller's own writes
(:class:`OwnWriteFilter`), and a reconcile that a conflict has ended runs again as soon as the
cache has the write that came first.

The running reconcile is known through a context variable: a write inside it, however deep in
the call, is recorded; a write outside one (a test, a tool) is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Self

import msgspec

from datum_compute.api import core
from datum_compute.api.meta import Object, WireObject
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client, Patch, Propagation, ReadForwarder
from datum_compute.runtime.cache.cache import Cache, CacheExpectation


class Write(msgspec.Struct, frozen=True):
    """A write that ``cache`` is to see, and the client to read it from when it does not."""

    client: Client
    cache: Cache
    expectation: CacheExpectation

    def seen(self) -> bool:
        return self.cache.has_seen(self.expectation)

    async def read_live(self) -> None:
        """Bring the cache up to date on this one object. Raises what reading raises."""
        name, namespace = self.expectation.name, self.expectation.namespace
        try:
            self.cache.put_live(await self.client.get(self.cache.resource, name, namespace))
        except errors.NotFound:
            self.cache.drop_live(name, namespace)


_Holders = list[tuple[Cache, str]]
"""The caches that hold an object, and its uid there."""

MAX_EXPECTED_WRITES = 4096
"""Own writes whose events are expected. Those that no watch delivers would stay for ever; at
this many all are forgotten, which costs at most one run each."""


@dataclass(slots=True)
class _InFlight:
    """Writes of one object that were not answered yet, and changes that arrived meanwhile."""

    number: int = 0
    held: list[Callable[[], None]] = field(default_factory=list)


class OwnWriteFilter:
    """Revisions that one controller has written and its watches have yet to deliver. Only those
    of ``resources``, whose watches leave them out, are kept.

    The event of a write may arrive before its answer, which says what revision it is. So a change
    of an object that is being written is held until the answer; the run that writes keeps the
    request that would follow from it waiting for as long anyway."""

    __slots__ = ("_expected", "_in_flight", "_resources")

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._resources = tuple(resources)
        self._expected: set[tuple[str, str]] = set()
        self._in_flight: dict[tuple[Resource, str, str], _InFlight] = {}

    def __len__(self) -> int:
        return len(self._expected)

    def expect(self, resource: Resource, obj: Object) -> None:
        if resource not in self._resources:
            return
        if len(self._expected) >= MAX_EXPECTED_WRITES:
            self._expected.clear()
        self._expected.add((obj.metadata.uid, obj.metadata.resource_version))

    @contextmanager
    def writing(self, resource: Resource, namespace: str, name: str) -> Iterator[None]:
        """For the time of a write, whose answer is expected before the block ends."""
        if resource not in self._resources:
            yield
            return
        key = (resource, namespace, name)
        writes = self._in_flight.setdefault(key, _InFlight())
        writes.number += 1
        try:
            yield
        finally:
            writes.number -= 1
            if not writes.number:
                del self._in_flight[key]
                for deliver in writes.held:
                    deliver()

    def hold(self, resource: Resource, obj: Object, deliver: Callable[[], None]) -> bool:
        """Whether a write of this object, or of one of its name on another plane, is in flight;
        ``deliver`` is then called when it has ended, however it did."""
        writes = self._in_flight.get((resource, obj.namespace, obj.name))
        if writes is None:
            return False
        writes.held.append(deliver)
        return True

    def consume(self, obj: Object) -> bool:
        """Whether this is one of the controller's own writes; true once for each."""
        key = (obj.metadata.uid, obj.metadata.resource_version)
        if key not in self._expected:
            return False
        self._expected.remove(key)
        return True

    def forget(self) -> None:
        """Leave none out any more: a run has begun without having seen one."""
        self._expected.clear()


_running: ContextVar[WriteRecording | None] = ContextVar("running_reconcile", default=None)


class WriteRecording:
    """``with WriteRecording() as recording:`` collects the writes inside the block, and lets
    ``own_writes`` expect them."""

    __slots__ = ("_token", "own_writes", "refused", "writes")

    def __init__(self, own_writes: OwnWriteFilter | None = None) -> None:
        self.own_writes = own_writes
        self.writes: list[Write] = []
        self.refused: list[Write] = []
        """For writes refused as conflicts: that the cache sees the write that came first."""

    def __enter__(self) -> Self:
        self._token = _running.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _running.reset(self._token)


def _writing(resource: Resource, namespace: str, name: str) -> AbstractContextManager[None]:
    run = _running.get()
    if run is None or run.own_writes is None:
        return nullcontext()
    return run.own_writes.writing(resource, namespace, name)


class RecordingClient(ReadForwarder):
    """A client that records its writes for the running reconcile."""

    def __init__(self, client: Client, caches: Callable[[Resource], Sequence[Cache]]) -> None:
        super().__init__(client)
        self._caches = caches

    async def create(
        self, resource: Resource, body: WireObject, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        self._check_namespace(namespace)
        with _writing(resource, namespace, str(body.get("metadata", {}).get("name", ""))):
            created = await self._client.create(resource, body, namespace, dry_run=dry_run)
            if not dry_run:
                self._remember(resource, created)
        return created

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
        with _writing(resource, namespace, name):
            try:
                patched = await self._client.patch(
                    resource, name, patch, namespace, subresource=subresource, dry_run=dry_run
                )
            except errors.Conflict:
                self._remember_conflict(resource, name, namespace, patch)
                raise
            if not dry_run:
                self._remember(resource, patched)
        return patched

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
        holders = self._holders(resource, name, namespace, uid)
        try:
            await self._client.delete(
                resource,
                name,
                namespace,
                uid=uid,
                resource_version=resource_version,
                propagation=propagation,
            )
        except errors.NotFound:
            self._remember_deletion(name, namespace, holders)  # the same outcome as a deletion
            raise
        self._remember_deletion(name, namespace, holders)

    def _check_namespace(self, name: str) -> None:
        """Raises what the server would, where a cache has the namespace as being deleted."""
        for cache in self._caches(core.NAMESPACES) if name else ():
            found = cache.get(name)
            if found is not None and found.metadata.deleting:
                raise errors.NamespaceTerminating(
                    403, "Forbidden", f"namespace {name} is being deleted"
                )

    def _remember(self, resource: Resource, obj: Object) -> None:
        run = _running.get()
        # A subresource such as scale answers with another kind, whose revision is unrelated.
        if run is None or obj.kind != resource.kind:
            return
        if run.own_writes is not None:
            run.own_writes.expect(resource, obj)
        for cache in self._caches(resource):
            if cache.expects(obj):
                revision = obj.metadata.resource_version
                expectation = CacheExpectation(obj.namespace, obj.name, resource_version=revision)
                run.writes.append(Write(self._client, cache, expectation))

    def _remember_conflict(
        self, resource: Resource, name: str, namespace: str, patch: Patch
    ) -> None:
        run = _running.get()
        metadata = patch.body.get("metadata") if isinstance(patch.body, Mapping) else None
        revision = metadata.get("resourceVersion") if metadata else None
        if run is None or not revision:
            return
        for cache in self._caches(resource):
            if cache.get(name, namespace) is not None:
                expectation = CacheExpectation(namespace, name, newer_than=revision)
                run.refused.append(Write(self._client, cache, expectation))

    def _holders(self, resource: Resource, name: str, namespace: str, uid: str) -> _Holders:
        """The caches that have what is about to be deleted."""
        if _running.get() is None:
            return []
        found = []
        for cache in self._caches(resource):
            obj = cache.get(name, namespace)
            if obj is not None and uid in ("", obj.metadata.uid):
                found.append((cache, obj.metadata.uid))
        return found

    def _remember_deletion(self, name: str, namespace: str, holders: _Holders) -> None:
        run = _running.get()
        if run is None:
            return
        for cache, uid in holders:
            expectation = CacheExpectation(namespace, name, deleted_uid=uid)
            run.writes.append(Write(self._client, cache, expectation))
