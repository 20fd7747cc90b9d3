"""The sleep of one Instance.

Who uses the Instance holds it awake: each connection, and each command that runs in it. Idle for
long enough, it is to be paused, and later stopped: the provider is notified, reports that, and
calls :meth:`Sleeper.deepen`. So what sleeps is on record before it is stopped, and a stopped
container is never taken for one that ended. Waking does not wait for a report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from socket import socket
from typing import Protocol

from datum_compute.decisions.sleep import (
    Rest,
    RestDecision,
    SleepPolicy,
    decide_rest,
    held_seconds,
)
from datum_compute.providers.container import failures
from datum_compute.providers.container.activator import connections
from datum_compute.providers.container.engine import EngineRefused, EngineUnreachable
from datum_compute.runtime.metrics.registry import MetricsRegistry

LONGEST_TIMER_SECONDS = 86400.0
"""An event loop does not take any number."""
AWAY_SECONDS = 0.1
"""Until an engine that is away is asked again, while a connection waits."""
FIRST_REQUEST_SECONDS = 0.1
"""Until it is reported awake, which takes the CPU that the request needs that has woken it."""
WAKE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class WakeFailed(Exception):
    """It did not wake within its deadline; the message says why."""


class Containers(Protocol):
    """See :class:`.containers.InstanceContainers`."""

    async def lower(self, rest: Rest) -> None: ...

    async def resume(self, rest: Rest) -> None: ...


class WakeMetrics:
    def __init__(self, registry: MetricsRegistry) -> None:
        self._wakes = registry.counter(
            "compute_instance_wakes_total",
            "Sleeping Instances to which a connection came: woken, or failed within the deadline,"
            " which is worth an alert.",
            "result",
        )
        self._seconds = registry.histogram(
            "compute_instance_wake_seconds",
            "From the first connection until a sleeping Instance answers.",
            buckets=WAKE_BUCKETS,
        ).labels()

    def record(self, result: str, seconds: float) -> None:
        self._wakes.labels(result).inc()
        if result == "woken":
            self._seconds.observe(seconds)


class Sleeper:
    __slots__ = (
        "_answered",
        "_changed",
        "_containers",
        "_idle_since",
        "_is_closed",
        "_is_settled",
        "_lock",
        "_metrics",
        "_now",
        "_open",
        "_timer",
        "_waking",
        "address",
        "failure",
        "policy",
        "port",
        "rest",
    )

    def __init__(
        self,
        containers: Containers,
        policy: SleepPolicy,
        address: str,
        port: int,
        *,
        now: Callable[[], datetime],
        changed: Callable[[], None],
        metrics: WakeMetrics,
        rest: Rest = Rest.AWAKE,
        idle_seconds: float = 0.0,
    ) -> None:
        """``address`` is that of the container, ``port`` the one that shows that it is awake.
        ``changed`` is called when the report about it is another one."""
        self.policy = policy
        self.address = address
        self.port = port
        self.rest = rest
        self.failure = ""
        """Why it did not wake; empty when it has been available since."""
        self._containers = containers
        self._now = now
        self._changed = changed
        self._metrics = metrics
        self._open = 0
        self._idle_since = asyncio.get_running_loop().time() - idle_seconds
        self._is_closed = False
        self._is_settled = True
        """Whether the last call that paused or stopped it has succeeded."""
        self._lock = asyncio.Lock()
        self._waking: asyncio.Task[None] | None = None
        self._answered: socket | None = None
        """The connection that has shown that it is awake, until one who waited takes it."""
        self._timer: asyncio.TimerHandle | None = None
        self.schedule()

    @property
    def asleep(self) -> bool:
        """Also while it is being woken: then it is not known yet whether it answers."""
        return self.rest is not Rest.AWAKE or self._waking is not None

    @property
    def is_waking(self) -> bool:
        return self._waking is not None

    @property
    def is_due(self) -> bool:
        """Whether it is to sleep, or to sleep deeper."""
        wanted = self._decide().rest
        return not self.is_waking and (
            wanted > self.rest or (wanted == self.rest and not self._is_settled)
        )

    @property
    def is_held(self) -> bool:
        return held_seconds(self.policy, self._now()) > 0

    # Using it.

    def acquire(self) -> None:
        self._open += 1

    def release(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._idle_since = asyncio.get_running_loop().time()
            self.schedule()

    async def wait_awake(self) -> bool:
        """Wake it; whether it slept. Raises :class:`WakeFailed`. The caller has acquired it."""
        if not self.asleep:
            return False
        await asyncio.shield(self.begin_waking())
        return True

    def take_connection(self, port: int) -> socket | None:
        """The one to this port that is open since it woke, if there is one: a program that serves
        one connection after the other would have to end it first."""
        if port != self.port:
            return None
        found, self._answered = self._answered, None
        return found

    def begin_waking(self) -> asyncio.Task[None]:
        if self._waking is None:
            self._waking = asyncio.get_running_loop().create_task(self._wake(), name="wake")
            self._waking.add_done_callback(_retrieve)
        return self._waking

    async def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + self.policy.wake_seconds
        obstacle = "the container engine does not answer"
        try:
            async with asyncio.timeout_at(deadline):
                async with self._lock:
                    refusal = await self._resume()
                    self.rest, self._is_settled = Rest.AWAKE, True
                obstacle = refusal or f"port {self.port} does not accept connections"
                if refusal:
                    self._changed()  # the provider makes the containers anew where it can
                self._answered = await connections.dial_until(self.address, self.port, deadline)
        except OSError:  # of which a timeout is one
            self.rest, self._is_settled = Rest.AWAKE, True
            waited = f"{self.policy.wake_seconds:g}s"
            self.failure = f"a connection has waited for {waited}: {obstacle}"
            self._metrics.record("failed", loop.time() - started)
            raise WakeFailed(self.failure) from None
        else:
            self._metrics.record("woken", loop.time() - started)
        finally:
            self._waking = None
            self._idle_since = loop.time()
            self._stop_timer()  # of the next step of a sleep that is over
            self.schedule()
            if self.failure:
                self._changed()
            else:
                loop.call_later(FIRST_REQUEST_SECONDS, self._report_awake)

    def _report_awake(self) -> None:
        if self._answered is not None:
            self._answered.close()  # a command has woken it, or a connection to another port
            self._answered = None
        self._changed()

    async def _resume(self) -> str:
        """Why the engine refuses; empty where it does not."""
        rest = self.rest if self._is_settled else Rest.STOPPED
        while True:
            try:
                await self._containers.resume(rest)
                return ""
            except EngineRefused as error:
                return failures.one_line(error.message)
            except EngineUnreachable:
                await asyncio.sleep(AWAY_SECONDS)

    # Going to sleep.

    async def deepen(self) -> None:
        """Pause or stop it, unless it is in use again. Raises ``EngineRefused`` and
        ``EngineUnreachable``: then it counts as asleep, and is to be asked again."""
        async with self._lock:
            if not self.is_due:
                return
            # Before the engine is asked: a connection from now on waits, and wakes it.
            self.rest, self._is_settled = self._decide().rest, False
            await self._containers.lower(self.rest)
            self._is_settled = True
        self.schedule()

    def schedule(self) -> None:
        """Look at it again when it may be due. A timer that is set stays: it finds out by itself
        that it is early, so a connection costs none."""
        if self._timer is None and self._open == 0 and not self._is_closed:
            seconds = self._decide().seconds
            if self.is_due:
                self._changed()
            elif seconds is not None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(min(seconds, LONGEST_TIMER_SECONDS), self._look)

    def update(self, policy: SleepPolicy) -> None:
        if policy != self.policy:
            self.policy = policy
            self._stop_timer()
            self.schedule()

    def close(self) -> None:
        self._is_closed = True
        if self._answered is not None:
            self._answered.close()
            self._answered = None
        self._stop_timer()
        if self._waking is not None:
            self._waking.cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        self.schedule()

    def _decide(self) -> RestDecision:
        idle = None if self._open else asyncio.get_running_loop().time() - self._idle_since
        return decide_rest(self.policy, idle_seconds=idle, now=self._now())


def _retrieve(task: asyncio.Task[None]) -> None:
    """Those who wait get its failure; where no one does, it is in the report."""
    if not task.cancelled():
        task.exception()
