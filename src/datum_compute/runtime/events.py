"""Events: what happened to an object, as ``kubectl describe`` shows it.

A controller records after the matching status has been stored. An Event's name is derived from
its object, component, reason and message, so a repetition finds the existing Event and counts
it up, after a restart too. One object is limited twice, as by Kubernetes' own recorder: ten
different messages of one reason within ten minutes are combined into one Event, and beyond a
burst an object gets one Event in five minutes.

Nothing depends on Events. A failed write is tried once more, counted and dropped; it never
fails a reconcile.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from datum_compute.api import core
from datum_compute.api.conditions import wire_time
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.client.streams import Deadline
from datum_compute.decisions.status_events import EventContent
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.workqueue.token_bucket import TokenBucket

logger = get_logger(__name__)

BURST = 25
REFILL_SECONDS = 300.0
SIMILAR = 10
SIMILAR_SECONDS = 600.0
REMEMBERED = 4096
"""These five are those of Kubernetes' own recorder."""
CALL_SECONDS = 5.0
MAX_MESSAGE = 1024
TRIES = 2

K = TypeVar("K")
V = TypeVar("V")


class EventRecorder:
    """Records on behalf of one component."""

    def __init__(
        self, component: str, env: Environment, metrics: MetricsRegistry | None = None
    ) -> None:
        self._component = component
        self._env = env
        self._counts: _Recent[str, int] = _Recent()
        self._spam: _Recent[str, TokenBucket] = _Recent()
        self._similar: _Recent[tuple[str, str, str], _Similar] = _Recent()
        self._outcomes = (metrics or MetricsRegistry()).counter(
            "compute_events_total",
            "Events by outcome: created, repeated (counted up), limited (too many on one object),"
            " failed.",
            *("component", "outcome"),
        )

    async def record(self, client: Client, obj: Object, *notices: EventContent) -> None:
        """Record each of these on the plane of ``obj``."""
        for notice in notices:
            await self._record(client, obj, notice)

    async def record_once(self, client: Client, obj: Object, notice: EventContent) -> None:
        """Record this unless it exists: for what cannot happen twice to one object."""
        await self._record(client, obj, notice, once=True)

    async def _record(
        self, client: Client, obj: Object, notice: EventContent, *, once: bool = False
    ) -> None:
        now = asyncio.get_running_loop().time()
        notice, key = self._merged(obj, notice, now)
        name = _event_name(obj, self._component, key)
        if once and name in self._counts:
            return
        bucket = self._spam.get_or(obj.metadata.uid, lambda: TokenBucket(BURST, now))
        if bucket.take(now, 1 / REFILL_SECONDS):
            self._count("limited")
            return
        for attempt in range(TRIES):
            try:
                with Deadline(CALL_SECONDS):
                    await self._write(client, obj, notice, name, once=once)
                return
            except (errors.ClientError, TimeoutError, msgspec.DecodeError) as error:
                if attempt + 1 == TRIES or not isinstance(error, errors.TransportFailure):
                    self._count("failed")
                    logger.info(
                        "event not written", event=name, reason=notice.reason, error=str(error)
                    )
                    return

    async def _write(
        self, client: Client, obj: Object, notice: EventContent, name: str, *, once: bool
    ) -> None:
        namespace = obj.namespace or "default"
        count = self._counts.get(name)
        if count is None:
            try:
                body = self._body(obj, notice, name, namespace)
                await client.create(core.EVENTS, body, namespace)
                self._remember(name, 1, "created")
                return
            except errors.AlreadyExists:
                if once:
                    self._counts.put(name, 1)
                    return
                path = core.EVENTS.path(namespace, name)
                count = msgspec.json.decode(await client.raw(path), type=_Counted).count
        change = {
            "count": count + 1,
            "lastTimestamp": wire_time(self._env.now()),
            "message": notice.message[:MAX_MESSAGE],
        }
        try:
            await client.patch(core.EVENTS, name, merge(change), namespace)
        except errors.NotFound:
            # Events expire; this one has since it was last written.
            await client.create(core.EVENTS, self._body(obj, notice, name, namespace), namespace)
            self._remember(name, 1, "created")
            return
        self._remember(name, count + 1, "repeated")

    def _merged(self, obj: Object, notice: EventContent, now: float) -> tuple[EventContent, str]:
        """The notice as it is written, and the key that makes two notices the same Event."""
        kind = (obj.metadata.uid, notice.type, notice.reason)
        similar = self._similar.get_or(kind, _Similar)
        if similar.add(notice.message, now):
            text = f"(combined from similar events): {notice.message}"
            return EventContent(notice.type, notice.reason, text), f"{notice.type}\0{notice.reason}"
        return notice, f"{notice.type}\0{notice.reason}\0{notice.message}"

    def _body(self, obj: Object, notice: EventContent, name: str, namespace: str) -> dict[str, Any]:
        now = wire_time(self._env.now())
        involved = {
            "apiVersion": obj.api_version,
            "kind": obj.kind,
            "namespace": obj.namespace,
            "name": obj.name,
            "uid": obj.metadata.uid,
            "resourceVersion": obj.metadata.resource_version,
        }
        return {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "type": notice.type,
            "reason": notice.reason,
            "message": notice.message[:MAX_MESSAGE],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }

    def _remember(self, name: str, count: int, outcome: str) -> None:
        self._counts.put(name, count)
        self._count(outcome)

    def _count(self, outcome: str) -> None:
        self._outcomes.labels(self._component, outcome).inc()


def _event_name(obj: Object, component: str, key: str) -> str:
    text = f"{obj.metadata.uid}\0{component}\0{key}"
    return f"{obj.name[:200]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


class _Counted(msgspec.Struct):
    """The one field read of an existing Event."""

    count: int = 1


@dataclass(slots=True)
class _Similar:
    """Different messages of one reason about one object."""

    messages: dict[str, None] = field(default_factory=dict)
    at: float = 0.0

    def add(self, message: str, now: float) -> bool:
        """Whether there are too many to record each."""
        if now - self.at > SIMILAR_SECONDS:
            self.messages.clear()
        self.at = now
        self.messages[message] = None
        if len(self.messages) < SIMILAR:
            return False
        if len(self.messages) > SIMILAR:
            del self.messages[message]  # enough are known
        return True


class _Recent(Generic[K, V]):
    """The entries used last, up to a bound."""

    def __init__(self) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def get_or(self, key: K, make: Callable[[], V]) -> V:
        found = self._entries.get(key)
        if found is None:
            found = make()
        self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > REMEMBERED:
            self._entries.popitem(last=False)
