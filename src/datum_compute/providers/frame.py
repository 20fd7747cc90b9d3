"""The controller every provider runs in, over the Instances of a cell.

An Instance with a gate is ignored. When the last gate is removed the finalizer is stored, and
only then the provider is called, so that everything it starts will be torn down. The report of
the provider (its conditions, addresses) is one status write, with the hash of its template,
also where that template cannot run. One that is marked as stopped is stopped by the provider, and
reported so once nothing of it runs. On deletion the provider tears down first; then the finalizer
is released.

``Ready`` is never written here: it is the Instance controller's rollup.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.providers import errors
from datum_compute.providers.protocol import (
    PROGRAMMED,
    STOPPING,
    SUSPENDED,
    Addresses,
    InstanceReport,
    InstanceTarget,
    Provider,
    failed,
    preparing,
)
from datum_compute.runtime.cache.quarantine import readable, views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import ConditionChange, status_with

FIRST_REPORT_SECONDS = 5.0
"""How long readiness waits for the first look at all Instances. A guess."""
REPORTED_SECONDS = 2.0
"""What an Instance that was never programmed waits for is reported where the provider tries again
after this time at the earliest: an engine that is away, for example. What takes less time is
expected to pass by itself. A guess."""


class InstanceRunner:
    """Reconciles Instances against one provider."""

    def __init__(self, provider: Provider, env: Environment) -> None:
        self._provider = provider
        self._env = env
        self._seen: set[str] | None = set()
        """Uids of the Instances it has reconciled; None once that is not asked for any more."""
        self._next_seen = asyncio.Event()
        self.finalizer = compute.provider_finalizer(provider.name)

    async def wait_seen(self, instances: Callable[[], Iterable[Object]]) -> None:
        """Until each of these Instances that runs or should run has been reconciled once."""
        while self._seen is not None:
            self._next_seen.clear()
            wanted = {
                obj.metadata.uid for obj in instances() if not obj.view(compute.Instance).gates
            }
            if wanted <= self._seen:
                self._seen = None
            else:
                await self._next_seen.wait()

    async def reconcile(self, cluster: Cluster, obj: Object) -> Result:
        try:
            return await self._reconcile(cluster, obj)
        finally:
            if self._seen is not None:
                self._seen.add(obj.metadata.uid)
                self._next_seen.set()

    async def _reconcile(self, cluster: Cluster, obj: Object) -> Result:
        if obj.metadata.deleting:
            # One that cannot be read is removed too: its name and uid are enough.
            found = views((obj,), compute.Instance)
            instance = found[0] if found else compute.Instance(metadata=obj.metadata)
            return await self._remove(cluster.client, obj, InstanceTarget(cluster.name, instance))
        target = InstanceTarget(cluster.name, obj.view(compute.Instance))
        if target.instance.gates:
            return DONE
        return await self._run(cluster.client, obj, target)

    async def _run(self, cell_client: Client, obj: Object, target: InstanceTarget) -> Result:
        obj = await patch.ensure_metadata(
            cell_client, compute.INSTANCES, obj, finalizer=self.finalizer
        )
        self._env.fault("provider.before-ensure")
        call = self._suspend if target.instance.suspended else self._ensure
        report, result = await call(target)
        await patch.write_status(cell_client, compute.INSTANCES, obj, self._status(obj, report))
        return result

    async def _suspend(self, target: InstanceTarget) -> tuple[InstanceReport, Result]:
        """``Programmed`` stays True where it is: what was handed to the runtime is still there."""
        programmed = PROGRAMMED if target.instance.programmed else SUSPENDED
        try:
            await self._provider.suspend(target)
        except errors.NotReady as error:
            if target.instance.status.suspended:
                raise Waiting(str(error), error.delay) from error
            return InstanceReport(programmed, STOPPING), after(error.delay)
        return InstanceReport(programmed, SUSPENDED), DONE

    async def _ensure(self, target: InstanceTarget) -> tuple[InstanceReport, Result]:
        try:
            report = await self._provider.ensure(target)
        except errors.NotReady as error:
            if target.instance.programmed or error.delay < REPORTED_SECONDS:
                raise Waiting(str(error), error.delay) from error
            return preparing(str(error)), after(error.delay)
        except errors.InsufficientCapacity as error:
            state = failed(compute.REASON_INSUFFICIENT_CAPACITY, str(error))
            return InstanceReport(state, state), after(error.delay)
        except errors.Rejected as error:
            state = failed(error.reason, error.message)
            return InstanceReport(state, state), _again(error.delay)
        return report, _again(report.requeue_after)

    async def _remove(self, cell_client: Client, obj: Object, target: InstanceTarget) -> Result:
        if self.finalizer not in obj.metadata.finalizers:
            return DONE
        try:
            await self._provider.remove(target)
        except errors.NotReady as error:
            raise Waiting(str(error), error.delay) from error
        self._env.fault("provider.before-release")
        await patch.release_finalizer(cell_client, compute.INSTANCES, obj, self.finalizer)
        return DONE

    def _status(self, obj: Object, report: InstanceReport) -> dict[str, Any]:
        instance = obj.view(compute.Instance)
        status = status_with(
            obj,
            ConditionChange(compute.CONDITION_PROGRAMMED, *report.programmed),
            ConditionChange(compute.CONDITION_AVAILABLE, *report.available),
            *([ConditionChange(compute.CONDITION_ASLEEP, *report.asleep)] if report.asleep else []),
            now=self._env.now(),
        )
        if report.asleep is None:
            others = (each for each in status["conditions"] if each["type"] != _ASLEEP)
            status["conditions"] = list(others)
        if instance.template_hash:
            # Also of a template that cannot run.
            status["controller"] = {"observedTemplateHash": instance.template_hash}
        if report.available == SUSPENDED:
            status["suspended"] = True
        else:
            status.pop("suspended", None)
        if report.interfaces:
            status["networkInterfaces"] = [_interface(one) for one in report.interfaces]
        return status


_ASLEEP = compute.CONDITION_ASLEEP


def _again(seconds: float | None) -> Result:
    return DONE if seconds is None else after(seconds)


def _concerns_provider(old: Object | None, new: Object | None) -> bool:
    """Any change but to conditions of other writers: QuotaGranted and Ready affect neither what
    runs nor what is reported. No change of a gated Instance until it is deleted."""
    if new is not None and not new.metadata.deleting and new.view(compute.Instance).gates:
        return False
    return old is None or new is None or _relevant_state(old) != _relevant_state(new)


def _relevant_state(obj: Object) -> tuple[object, ...]:
    status = obj.view(compute.Instance).status
    return (
        # Without the revision, which every change has.
        msgspec.structs.replace(obj.metadata, resource_version=""),
        bytes(obj.spec),
        conditions.find(status.conditions, compute.CONDITION_PROGRAMMED),
        conditions.find(status.conditions, compute.CONDITION_AVAILABLE),
        conditions.find(status.conditions, compute.CONDITION_ASLEEP),
        status.controller,
        status.network_interfaces,
        status.suspended,
    )


def _interface(addresses: Addresses) -> dict[str, Any]:
    assignments = {}
    if addresses.network_ip:
        assignments["networkIP"] = addresses.network_ip
    if addresses.external_ip:
        assignments["externalIP"] = addresses.external_ip
    return {"assignments": assignments}


class FirstReportController(Controller):
    """Ready when every Instance has been looked at once, or that takes too long: what is reported
    from then on is what this provider found, not what one did before it was stopped."""

    runner: InstanceRunner

    async def wait_ready(self) -> None:
        await super().wait_ready()
        try:
            async with asyncio.timeout(FIRST_REPORT_SECONDS):
                await self.runner.wait_seen(self._instances)
        except TimeoutError:
            pass  # what runs the Instances may be away

    def _instances(self) -> Iterable[Object]:
        for cluster in self.fleet.clusters():
            yield from readable(cluster.cache(compute.INSTANCES).list(), compute.Instance)


def provider_controller(
    cell: Fleet,
    provider: Provider,
    env: Environment,
    *,
    reads: Sequence[Read] = (),
    watches: Sequence[Watch] = (),
    first_reports: bool = False,
) -> Controller:
    """The controller of one provider; ``reads`` are caches the provider reads, ``watches`` those
    whose changes concern an Instance too. With ``first_reports`` it is ready when it has looked
    at every Instance."""
    runner = InstanceRunner(provider, env)
    kind = FirstReportController if first_reports else Controller
    controller = kind(
        f"provider-{provider.name}",
        cell,
        for_object(cell, compute.INSTANCES, runner.reconcile, deleting=True),
        watches=[
            Watch.each(cell, compute.INSTANCES, predicate=_concerns_provider, own_writes=False),
            *watches,
        ],
        reads=reads,
    )
    if isinstance(controller, FirstReportController):
        controller.runner = runner
    return controller
