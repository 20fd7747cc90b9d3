"""One of several equal processes acts at a time: a Lease, and a fence around its writes.

A candidate reads the Lease every ``RETRY_SECONDS``. One that is missing,
released, or has not changed for its own duration is taken by a write that fails if any other
came first. From then on it is renewed; each renewal lets the holder act until
``RENEW_SECONDS`` after that renewal was *sent*. When the time is up without another one, the
holder has lost, whatever the server answers later, and its process ends. On an orderly stop
the Lease is released, so that a successor need not wait.

Clocks of different machines are never compared. A candidate counts on its own monotonic
clock from the moment at which it *saw* the record change, and a holder from the moment
before it sent the change, so the holder stops at least ``LEASE_SECONDS - RENEW_SECONDS``
before another may start, as long as the rates of their clocks differ by less than half.

A process may be frozen at any await (a suspended machine, a starved container) and wake long
after another has taken over. It must not write then, so its writes pass a
:class:`FencedTransport`, which checks the clock in the same step in which the request leaves
the process. A request that has left cannot be stopped: preconditions and idempotence
protect against it, as they would without a Lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from datum_compute.api import core
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.client.transport import HttpRequest, HttpResponse, Transport
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.metrics.registry import MetricsRegistry

logger = get_logger(__name__)

LEASE_SECONDS = 15.0
"""How long an unchanged record excludes others. These three are Kubernetes' own."""
RENEW_SECONDS = 10.0
"""How long a holder acts on one renewal."""
RETRY_SECONDS = 2.0
"""Between two reads of the Lease, and between two renewals."""
JITTER = 1.2
"""A candidate waits up to this many times longer, so that candidates drift apart."""
RELEASE_SECONDS = 2.0
"""How long the release of the Lease may take."""

_READS = ("GET", "HEAD", "OPTIONS")
_REVIEWS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
"""Posted, but they store nothing; admission sends them on every replica."""


class LeadershipLost(Exception):
    """The Lease could not be renewed in time, or another process holds it."""


class NotLeader(Exception):
    """A write was not sent, because this process does not lead.

    Not a client error: no plane failed, and no caller may conclude that one did.
    """


@dataclass(frozen=True, slots=True)
class LeaseName:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Observed:
    """A record as it was last seen to change, and when that was on our own clock."""

    record: tuple[Any, ...]
    at: float


class Leadership:
    """One candidate. ``run`` for as long as the process lives; ``held`` at any time."""

    def __init__(self, client: Client, lease: LeaseName, identity: str, env: Environment) -> None:
        """``client`` is of the process's own cluster, and not fenced."""
        self.lease = lease
        self.identity = identity
        self._client = client
        self._env = env
        self._random = env.random("runtime.leadership")
        self._observed: _Observed | None = None
        self._current: Object | None = None  # the Lease as we last wrote or read it
        self._until = float("-inf")
        self._elected = asyncio.Event()
        self.message = "the Lease has not been read yet"
        """Why it does not lead."""

    def held(self) -> bool:
        """Whether this process may act now."""
        return asyncio.get_running_loop().time() < self._until

    @property
    def elected(self) -> bool:
        """Whether this process leads, or did before it lost."""
        return self._elected.is_set()

    async def wait_elected(self) -> None:
        await self._elected.wait()

    def track(self, registry: MetricsRegistry) -> Callable[[], None]:
        family = registry.gauge(
            "leader_election_master_status",
            "1 on the process that leads; only with --leader-elect.",
            "name",
        )
        return family.labels(self.lease.name).track(lambda: float(self.held()))

    async def run(self) -> None:
        """Raises :class:`LeadershipLost`; releases the Lease when cancelled."""
        try:
            await self._acquire()
            self._log("leading")
            self._elected.set()
            while True:
                await asyncio.sleep(RETRY_SECONDS)
                await self._renew()
        except asyncio.CancelledError:
            await self._release()
            raise
        finally:
            self._until = float("-inf")

    async def _acquire(self) -> None:
        while True:
            if await self._try():
                return
            await asyncio.sleep(RETRY_SECONDS * (1 + JITTER * self._random.random()))

    async def _renew(self) -> None:
        """Until it has succeeded once, or the time is up."""
        while True:
            self._check()
            try:
                async with asyncio.timeout_at(self._until):
                    renewed = await self._try()
            except TimeoutError:
                renewed = False
            self._check()
            if renewed:
                return
            await asyncio.sleep(RETRY_SECONDS)

    def _check(self) -> None:
        if not self.held():
            raise LeadershipLost(f"lease {self.lease}: {self.message}")

    async def _try(self) -> bool:
        """One attempt to take or renew. A failure is logged and returned as False."""
        try:
            return await self._attempt()
        except errors.ClientError as error:
            self._current = None  # read it before the next write
            if self.message != str(error):
                self.message = str(error)
                self._log("cannot acquire or renew the lease", logging.WARNING, reason=self.message)
            return False

    async def _attempt(self) -> bool:
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        lease = self._current if self._elected.is_set() else None
        if lease is None:
            lease = await self._read()
            sent_at = loop.time()
        if lease is None:
            body = {"metadata": {"name": self.lease.name}, "spec": self._spec(None)}
            written = await self._client.create(core.LEASES, body, self.lease.namespace)
        else:
            spec = lease.view(core.Lease).spec
            if not self._may_take(spec):
                return False
            metadata = {
                "uid": lease.metadata.uid,
                "resourceVersion": lease.metadata.resource_version,
            }
            change = merge({"metadata": metadata, "spec": self._spec(spec)})
            written = await self._client.patch(
                core.LEASES, self.lease.name, change, self.lease.namespace
            )
        self._current = written
        self._observed = None
        self._until = sent_at + RENEW_SECONDS
        self.message = "the last renewal was too long ago"
        return True

    async def _read(self) -> Object | None:
        try:
            return await self._client.get(core.LEASES, self.lease.name, self.lease.namespace)
        except errors.NotFound:
            return None

    def _may_take(self, spec: core.LeaseSpec) -> bool:
        if spec.holder_identity == self.identity:
            return True
        if not spec.holder_identity:
            return not self._elected.is_set()  # released, and not by this process
        self.message = f"held by {spec.holder_identity}"
        if self._elected.is_set():
            self._until = float("-inf")  # another holds it: lost at once, not at the deadline
            return False
        now = asyncio.get_running_loop().time()
        record = (spec.holder_identity, spec.renew_time, spec.acquire_time, spec.lease_transitions)
        if self._observed is None or self._observed.record != record:
            self._observed = _Observed(record, now)
            return False
        lasts = spec.lease_duration_seconds or LEASE_SECONDS
        return now >= self._observed.at + lasts

    def _spec(self, previous: core.LeaseSpec | None) -> dict[str, Any]:
        now = _micro_time(self._env.now())
        transitions = (previous.lease_transitions or 0) if previous else 0
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(LEASE_SECONDS),
            "renewTime": now,
            "leaseTransitions": transitions,
        }
        if previous is None or previous.holder_identity != self.identity:
            spec["acquireTime"] = now
            if previous is not None:
                spec["leaseTransitions"] = transitions + 1
        return spec

    async def _release(self) -> None:
        """Release the Lease: this process acts no more, so the next one need not wait."""
        held, self._until = self.held(), float("-inf")
        lease = self._current
        if not held or lease is None:
            return
        metadata = {"uid": lease.metadata.uid, "resourceVersion": lease.metadata.resource_version}
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": _micro_time(self._env.now()),
        }
        change = merge({"metadata": metadata, "spec": spec})
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._client.patch(core.LEASES, self.lease.name, change, self.lease.namespace)
            self._log("lease released")
        except (errors.ClientError, TimeoutError) as error:
            self._log("lease not released", reason=str(error))

    def _log(self, message: str, level: int = logging.INFO, **more: Any) -> None:
        logger.log(level, message, lease=str(self.lease), identity=self.identity, **more)


class FencedTransport:
    """Sends writes only while ``held``; reads always, since every replica keeps caches.

    The transport, because it is the last place that is ours: a client may wait, and may
    repeat, between a call and its request. A transport may wait too, for a connection; so the
    request carries the check with it, to be repeated in the step in which it leaves.
    """

    def __init__(self, transport: Transport, held: Callable[[], bool]) -> None:
        self._transport = transport
        self._held = held

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if is_effect(request):
            before_send = partial(self._check_leads, request)
            before_send()
            request = msgspec.structs.replace(request, before_send=before_send)
        return await self._transport.send(request, timeout=timeout)

    def _check_leads(self, request: HttpRequest) -> None:
        if not self._held():
            raise NotLeader(
                f"{request.method} {request.path} was not sent: this process no longer leads"
            )

    async def close(self) -> None:
        await self._transport.close()


def is_effect(request: HttpRequest) -> bool:
    """Whether the request changes something."""
    if request.method in _READS:
        return False
    return not any(path in request.path for path in _REVIEWS)


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
