"""The sleep of a cell's Instances, as their provider sees it: who sleeps, and what is reported."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions import sleep
from datum_compute.decisions.sleep import Rest, SleepPolicy
from datum_compute.env import Environment
from datum_compute.providers import protocol
from datum_compute.providers.container import spec, states
from datum_compute.providers.container.activator import (
    Activator,
    InstanceContainers,
    Sleeper,
    WakeMetrics,
)
from datum_compute.providers.container.engine import ContainerEngine
from datum_compute.providers.container.run import Run
from datum_compute.providers.errors import Rejected
from datum_compute.providers.protocol import InstanceReport, InstanceTarget
from datum_compute.providers.sandbox import first_tcp_port, sandbox_of
from datum_compute.runtime.metrics.registry import MetricsRegistry

WAKES = 4
"""Containers of a cell that are woken at once."""


class Sleepers:
    def __init__(
        self,
        env: Environment,
        engine: Callable[[], ContainerEngine],
        runs: Mapping[str, Run],
        enqueue: Callable[[str], None],
        metrics: MetricsRegistry,
    ) -> None:
        """``enqueue`` asks for a reconcile of the Instance with this uid."""
        self._env = env
        self._engine = engine
        self._runs = runs
        self._enqueue = enqueue
        self._activator = Activator()
        self._wake_slots = asyncio.Semaphore(WAKES)
        self._metrics = WakeMetrics(metrics)

    def activate(
        self, target: InstanceTarget, run: Run, inspected: Sequence[dict[str, Any]]
    ) -> None:
        """Listen on its address, if it is one that sleeps. One that slept before this provider
        ran goes on sleeping. Raises ``OSError`` where the address is taken."""
        found = run.attachment
        policy = _policy_of(target)
        if found is None or not found.activated or run.sleeper is not None:
            return
        sandbox = sandbox_of(target)
        rest, idle = Rest.AWAKE, 0.0
        if target.instance.asleep:
            rest = states.rest_of([states.parse_state("", each).status for each in inspected])
            condition = conditions.find(target.instance.status.conditions, compute.CONDITION_ASLEEP)
            since = condition.last_transition_time if condition else self._env.now()
            idle = policy.after_seconds + (self._env.now() - since).total_seconds()
        names = [spec.container_name(target.instance, each.name) for each in sandbox.containers]
        ports = [port.port for each in sandbox.containers for port in each.ports]
        sleeper = Sleeper(
            InstanceContainers(self._engine, names, self._wake_slots),
            policy,
            found.network_ip,
            first_tcp_port(sandbox) or ports[0],
            now=self._env.now,
            changed=partial(self._enqueue, target.uid),
            metrics=self._metrics,
            rest=rest,
            idle_seconds=idle if rest is not Rest.AWAKE else 0.0,
        )
        try:
            self._activator.open(target.uid, found.external_ip, ports, sleeper)
        except PermissionError as error:
            sleeper.close()
            raise Rejected(
                compute.REASON_CONFIGURATION_ERROR,
                f"the platform may not listen on port {min(ports)} of {found.external_ip}:"
                " ports below 1024 are for root",
            ) from error
        except OSError:
            sleeper.close()
            raise
        run.sleeper = sleeper

    def report_asleep(self, target: InstanceTarget, run: Run) -> InstanceReport | None:
        """The report of one that sleeps or wakes, None of any other. Its containers are not looked
        at: that it does not run is known, and why."""
        sleeper = run.sleeper
        if sleeper is None or sleeper.rest is Rest.AWAKE:
            return None
        sleeper.update(_policy_of(target))
        run.started = run.available = False
        if sleeper.is_held:
            sleeper.begin_waking()
        elif target.instance.asleep and sleeper.is_due:
            self._deepen(target, run, sleeper)
        return _asleep(run)

    def with_sleep(
        self, target: InstanceTarget, run: Run, report: InstanceReport
    ) -> InstanceReport:
        """The report of an Instance that runs, with whether it sleeps."""
        sleeper = run.sleeper
        if sleeper is None:
            asks = sleep.find_policy(target.instance.metadata.annotations) is not None
            return replace(report, asleep=protocol.NO_SLEEP) if asks else report
        sleeper.update(_policy_of(target))
        if sleeper.is_waking:
            return replace(_asleep(run), requeue_after=report.requeue_after)
        if report.available.status != conditions.TRUE:
            if sleeper.failure and report.available.status == conditions.UNKNOWN:
                failure = protocol.failed(compute.REASON_WAKE_FAILED, sleeper.failure)
                report = replace(report, available=failure)
            return replace(report, asleep=protocol.AWAKE)
        sleeper.failure = ""
        if not sleeper.is_due:
            return replace(report, asleep=protocol.AWAKE)
        if not target.instance.asleep:
            # On record first: a container that is found stopped has ended otherwise.
            return replace(_asleep(run), requeue_after=0.0)
        self._deepen(target, run, sleeper)
        return _asleep(run)

    async def deactivate(self, uid: str) -> None:
        """Close its address, also to those who would wake it."""
        if (run := self._runs.get(uid)) is not None:
            run.sleeper = None
        await self._activator.close(uid)

    async def close(self) -> None:
        await self._activator.close_all()

    def _deepen(self, target: InstanceTarget, run: Run, sleeper: Sleeper) -> None:
        async def work() -> None:
            try:
                await sleeper.deepen()
            finally:
                self._enqueue(target.uid)

        name = f"sleep {target.instance.metadata.name}"
        run.task = asyncio.get_running_loop().create_task(work(), name=name)


def _policy_of(target: InstanceTarget) -> SleepPolicy:
    """Of one that the activator serves, also where its annotations were removed by hand."""
    return sleep.find_policy(target.instance.metadata.annotations) or SleepPolicy(math.inf)


def _asleep(run: Run) -> InstanceReport:
    return InstanceReport(
        protocol.PROGRAMMED, protocol.AVAILABLE_ASLEEP, run.addresses, asleep=protocol.ASLEEP
    )
