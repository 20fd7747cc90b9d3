"""The frame every provider runs in: one controller over the Instances of a cell.

The life of an Instance here: while a gate is left it is none of our business. When the last
gate is gone the finalizer is stored, and only then is the provider asked to run it, so
nothing can run that nobody would tear down. What the provider reports (both conditions,
addresses) goes out in a single status write, with the hash of the template it is about, also
where that template cannot run. On deletion the provider tears down first; then the finalizer
is released.

``Ready`` is never written here: it is the Instance controller's rollup of what is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client
from datum_compute.decisions import references
from datum_compute.env import Environment
from datum_compute.providers import errors
from datum_compute.providers.protocol import (
    Addresses,
    InstanceReport,
    InstanceTarget,
    Provider,
    failed,
)
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch


class InstanceRunner:
    """Reconciles Instances against one provider."""

    def __init__(self, cell: Fleet, provider: Provider, env: Environment) -> None:
        self._cell = cell
        self._provider = provider
        self._env = env
        self.finalizer = compute.provider_finalizer(provider.name)

    async def reconcile(self, request: Request) -> Result:
        cluster = self._cell.get(request.cluster)
        if cluster is None:
            return DONE
        obj = cluster.cache(compute.INSTANCES).get(request.name, request.namespace)
        if obj is None:
            return DONE
        subject = InstanceTarget(request.cluster, obj.view(compute.Instance))
        if obj.metadata.deleting:
            return await self._remove(cluster.client, obj, subject)
        if subject.instance.gates:
            return DONE
        return await self._run(cluster.client, obj, subject)

    async def _run(self, cell_client: Client, obj: Object, subject: InstanceTarget) -> Result:
        obj = await patch.ensure_metadata(
            cell_client, compute.INSTANCES, obj, finalizer=self.finalizer
        )
        self._env.fault("provider.before-ensure")
        report, result = await self._ask(subject)
        await patch.write_status(cell_client, compute.INSTANCES, obj, self._status(obj, report))
        return result

    async def _ask(self, subject: InstanceTarget) -> tuple[InstanceReport, Result]:
        if missing := references.describe_undelivered_data(subject.instance.spec):
            state = failed(compute.REASON_CONFIGURATION_ERROR, missing)
            return InstanceReport(state, state), DONE
        try:
            report = await self._provider.ensure(subject)
        except errors.NotReady as error:
            raise Waiting(str(error), error.delay) from error
        except errors.InsufficientCapacity as error:
            state = failed(compute.REASON_PROVISIONING, str(error))
            return InstanceReport(state, state), after(error.delay)
        except errors.Rejected as error:
            state = failed(error.reason, error.message)
            return InstanceReport(state, state), DONE
        return report, DONE if report.requeue_after is None else after(report.requeue_after)

    async def _remove(self, cell_client: Client, obj: Object, subject: InstanceTarget) -> Result:
        if self.finalizer not in obj.metadata.finalizers:
            return DONE
        try:
            await self._provider.remove(subject)
        except errors.NotReady as error:
            raise Waiting(str(error), error.delay) from error
        self._env.fault("provider.before-release")
        await patch.release_finalizer(cell_client, compute.INSTANCES, obj, self.finalizer)
        return DONE

    def _status(self, obj: Object, report: InstanceReport) -> dict[str, Any]:
        instance = obj.view(compute.Instance)
        current = instance.status.conditions
        for kind, state in (
            (compute.CONDITION_PROGRAMMED, report.programmed),
            (compute.CONDITION_AVAILABLE, report.available),
        ):
            current = conditions.with_condition(
                current,
                kind,
                state.status,
                state.reason,
                state.message,
                now=self._env.now(),
                observed_generation=obj.metadata.generation,
            )
        status = {**patch.values(obj.status), "conditions": conditions.to_wire(current)}
        if instance.template_hash:
            # Also of a template that cannot run: it is what was tried.
            status["controller"] = {"observedTemplateHash": instance.template_hash}
        if report.interfaces:
            status["networkInterfaces"] = [_interface(one) for one in report.interfaces]
        return status


def _concerns_provider(old: Object | None, new: Object | None) -> bool:
    """Anything but what others say in the status: quota and Ready change nothing about what
    is to run, nor about what was said of it. Nothing, while a gate is left."""
    if new is not None and not new.metadata.deleting and new.view(compute.Instance).gates:
        return False
    return old is None or new is None or _seen(old) != _seen(new)


def _seen(obj: Object) -> tuple[object, ...]:
    status = obj.view(compute.Instance).status
    return (
        # Everything of metadata but the revision, which every change has.
        msgspec.structs.replace(obj.metadata, resource_version=""),
        bytes(obj.spec),
        conditions.find(status.conditions, compute.CONDITION_PROGRAMMED),
        conditions.find(status.conditions, compute.CONDITION_AVAILABLE),
        status.controller,
        status.network_interfaces,
    )


def _interface(addresses: Addresses) -> dict[str, Any]:
    assignments = {}
    if addresses.network_ip:
        assignments["networkIP"] = addresses.network_ip
    if addresses.external_ip:
        assignments["externalIP"] = addresses.external_ip
    return {"assignments": assignments}


def provider_controller(
    cell: Fleet, provider: Provider, env: Environment, *, reads: Sequence[Read] = ()
) -> Controller:
    """The controller that runs one provider; ``reads`` are caches the provider looks at."""
    runner = InstanceRunner(cell, provider, env)
    return Controller(
        f"provider-{provider.name}",
        cell,
        runner.reconcile,
        watches=[
            Watch(cell, compute.INSTANCES, itself, predicate=_concerns_provider, own_writes=False)
        ],
        reads=reads,
    )
