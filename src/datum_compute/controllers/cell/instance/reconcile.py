"""Reconciles one Instance of a cell."""

from __future__ import annotations

import asyncio
import logging

from datum_compute.api import conditions
from datum_compute.api.compute import names, reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors
from datum_compute.controllers.cell.gates import ensure_gates_removed
from datum_compute.controllers.cell.instance.quota import ClaimManager
from datum_compute.controllers.cell.instance.removal import (
    FINALIZERS,
    Removal,
    has_other_finalizers,
)
from datum_compute.controllers.cell.instance.signals import InstanceSignals
from datum_compute.controllers.cell.instance.status import (
    DecidedStatus,
    GateConditions,
    decide_instance_status,
)
from datum_compute.controllers.cell.instance.sweep import Sweep
from datum_compute.controllers.cell.instance.write_back import WriteBack
from datum_compute.controllers.cell.referenced_data import CellData
from datum_compute.controllers.planes import HUB
from datum_compute.decisions.instances.gates import has_gate
from datum_compute.decisions.quota import pending_requeue
from datum_compute.decisions.references import references_of
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.backoff import Backoff
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.writes import patch

log = get_logger(__name__)

HUB_RETRY = Backoff(base_seconds=2.0, cap_seconds=30.0)
"""Back-off while the hub is unreachable. The cap is that of a watch, which does not notice sooner
that contact has returned."""
HUB_RETRY_SECONDS = 1.0
"""The shortest delay, since the back-off has full jitter."""
DATA_SECONDS = 15.0
"""The longest time until an Instance that waits for data is looked at again."""

LOGGED_SECONDS = 15.0
"""The interval from which each reconcile of a pending Instance is logged: an Instance older than a
minute has it."""

START_SECONDS = 1.0
"""How long the provider's first report is waited for once an Instance has no gates. Within this
time it saves a write: of the first status where the Instance was created without gates, else of
the copy on the hub and with it one in the project."""


_WITHOUT_REPORT = ConditionState(
    conditions.UNKNOWN, compute.REASON_PENDING, compute.WAITING_FOR_CONTROLLER
)
"""Ready of a new Instance."""

NO_DATA = ConditionState(conditions.TRUE, compute.REASON_DATA_READY, "The Instance names no data")


class InstanceReconciler:
    def __init__(
        self,
        cell: Fleet,
        hub: Fleet | None,
        env: Environment,
        claims: ClaimManager,
        write_back: WriteBack,
        signals: InstanceSignals,
        data: CellData,
        *,
        networking: bool,
    ) -> None:
        self._data = data
        self._cell = cell
        self._hub = hub
        self._env = env
        self._claims = claims
        self._write_back = write_back
        self._signals = signals
        self._removal = Removal(claims, write_back, signals)
        self._sweep = Sweep(claims, write_back)
        self._networking = networking
        self._hub_failures: dict[str, int] = {}  # by uid, since the last write-back
        self._sweep_failures: dict[Request, int] = {}
        self._starting: dict[str, float] = {}  # deadline of the first report, by uid

    async def reconcile(self, request: Request) -> Result:
        cell = self._cell.get(request.cluster)
        if cell is None:
            return DONE
        instance = cell.cache(compute.INSTANCES).get(request.name, request.namespace)
        if instance is None:
            return await self._sweep_deleted(cell, request)
        if instance.metadata.deleting:
            return await self._finalize(cell, instance)
        instance = await _ensure_finalizers(cell, instance)
        evaluation = await self._claims.evaluate(cell, instance)
        if evaluation.due_in > 0:
            # The result or this delay triggers another reconcile.
            return after(evaluation.due_in)
        self._signals.record_evaluation(evaluation.granted)
        # Before anything below can fail, so that no Instance waits for an event that was missed.
        requeue = self._safety_requeue(instance, evaluation.granted)
        try:
            gate_conditions = {compute.GATE_QUOTA: evaluation.granted}
            if (data := await self._data_condition(cell, instance)) is not None:
                gate_conditions[compute.GATE_REFERENCED_DATA] = data
                if data.reason == compute.REASON_AWAITING_PROPAGATION:
                    # No event reports the arrival of a Secret but its deployment's condition,
                    # which may come before the hub is asked again.
                    created = instance.metadata.creation_timestamp
                    delay = min(DATA_SECONDS, pending_requeue(created, self._env.now()))
                    requeue = delay if requeue is None else min(requeue, delay)
            if _is_unreported(instance.view(compute.Instance)):
                self._expect_report(instance)
                if (due_in := self._first_report_due_in(instance)) > 0:
                    return after(due_in)
            instance = await self._report(cell, instance, gate_conditions)
            if (due_in := self._first_report_due_in(instance)) > 0:
                return _sooner(requeue, evaluation.requeue_after, due_in)
            return _sooner(
                requeue, evaluation.requeue_after, await self._write_to_hub(cell, instance)
            )
        except errors.Conflict:
            if requeue is None:
                raise
            log.info("conflict while quota is pending; reconciling again later", name=instance.name)
            return after(requeue)

    async def _data_condition(self, cell: Cluster, instance: Object) -> ConditionState | None:
        """Decided only while the gate is set: an Instance that runs keeps what it has."""
        view = instance.view(compute.Instance)
        if not has_gate(view, compute.GATE_REFERENCED_DATA):
            return None
        references = references_of(view.spec)
        name = instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
        deployment = cell.cache(compute.WORKLOAD_DEPLOYMENTS).get(name, instance.namespace)
        if not references:
            return NO_DATA
        if deployment is None:
            text = "The deployment of the Instance is not known yet"
            return ConditionState(conditions.FALSE, compute.REASON_RESOLVING, text)
        current = view.status.conditions
        template = instance.metadata.annotations
        return await self._data.condition(cell, deployment, references, current, template)

    def _safety_requeue(self, instance: Object, granted: ConditionState) -> float | None:
        if granted.status == conditions.TRUE:
            return None
        delay = pending_requeue(instance.metadata.creation_timestamp, self._env.now())
        # Most grants come within a second: nothing is worth a line before the second tier.
        level = logging.INFO if delay >= LOGGED_SECONDS else logging.DEBUG
        log.log(
            level,
            "quota is pending; reconciling again later",
            name=instance.name,
            reason=granted.reason,
            seconds=delay,
        )
        return delay

    async def _report(
        self, cell: Cluster, instance: Object, gate_conditions: GateConditions
    ) -> Object:
        """Write the status, and after a grant remove the gate in the same reconcile: no later event
        would trigger that."""
        decided = self._decide(cell, instance, gate_conditions)
        instance = await self._write_status(cell, instance, decided)
        if decided.cleared_gates:
            self._env.fault("instance.before-gate")
            instance = await ensure_gates_removed(cell.client, instance, *decided.cleared_gates)
            if self._hub is not None:
                self._expect_report(instance)
        return instance

    def _expect_report(self, instance: Object) -> None:
        until = asyncio.get_running_loop().time() + START_SECONDS
        self._starting.setdefault(instance.metadata.uid, until)

    def _first_report_due_in(self, instance: Object) -> float:
        """Seconds left to wait for the provider's first report. Lost on restart: the Instance is
        then written back as it is."""
        uid = instance.metadata.uid
        until = self._starting.get(uid)
        if until is None:
            return 0.0
        left = until - asyncio.get_running_loop().time()
        if left > 0 and _may_start(instance.view(compute.Instance)):
            return left
        del self._starting[uid]
        return 0.0

    def _decide(
        self, cell: Cluster, instance: Object, gate_conditions: GateConditions
    ) -> DecidedStatus:
        return decide_instance_status(
            instance.view(compute.Instance),
            gate_conditions,
            now=self._env.now(),
            network_failure=self._network_failure(cell, instance),
        )

    async def _write_status(
        self, cell: Cluster, instance: Object, decided: DecidedStatus
    ) -> Object:
        before = instance.view(compute.Instance).status.conditions
        if decided.conditions == before:
            await self._signals.record_no_budget(cell, instance)
            return instance  # most reconciles end here
        status = {
            **patch.status_values(instance),
            "conditions": conditions.to_wire(decided.conditions),
        }
        instance = await patch.write_status(cell.client, compute.INSTANCES, instance, status)
        await self._signals.record_events(cell, instance, before)
        return instance

    def _network_failure(self, cell: Cluster, instance: Object) -> str | None:
        """The message of a NetworkBinding of the Instance that failed for good, or None."""
        deployment = instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME)
        if not self._networking or not deployment:
            return None
        bindings = cell.cache(networking.NETWORK_BINDINGS)
        interfaces = instance.view(compute.Instance).spec.network_interfaces
        for index in range(len(interfaces)):
            name = names.binding_name(deployment, index)
            binding = bindings.get(name, instance.namespace)
            if binding is None:
                continue
            view = binding.view(networking.NetworkBinding)
            ready = conditions.find(view.status.conditions, networking.CONDITION_READY)
            if ready is None or ready.status != conditions.FALSE:
                continue
            if ready.reason == networking.REASON_NETWORK_FAILED_TO_CREATE:
                return ready.message
        return None

    async def _write_to_hub(self, cell: Cluster, instance: Object) -> float | None:
        """Write the hub copy. Returns the seconds until a retry when the hub is unreachable or
        the copy's owner does not exist there, else None."""
        uid = instance.metadata.uid
        if self._hub is None or await self._ensure_written(cell, self._hub_cluster(), instance):
            self._hub_failures.pop(uid, None)
            return None
        failures = self._hub_failures.get(uid, 0)
        self._hub_failures[uid] = failures + 1
        return self._retry_delay(failures)

    def _retry_delay(self, failures: int) -> float:
        chance = self._env.random("controllers.instance.hub").random()
        return max(HUB_RETRY_SECONDS, HUB_RETRY.delay(failures, chance))

    async def _ensure_written(self, cell: Cluster, hub: Cluster | None, instance: Object) -> bool:
        if hub is None or not self._write_back.has_synced(hub):
            return False
        another = self._write_back.has_copy_of_another(hub, instance)
        if another and await _is_replaced(cell, instance):
            raise Waiting("the cache has not seen the successor of this Instance yet", 1.0)
        try:
            return await self._write_back.ensure_copy(hub, instance)
        except errors.TransportFailure as error:
            self._signals.record_write_back_failure()
            log.info("the hub is unreachable", reason=str(error))
            return False

    async def _finalize(self, cell: Cluster, instance: Object) -> Result:
        if not any(name in FINALIZERS for name in instance.metadata.finalizers):
            return DONE
        await self._signals.record_terminating(cell, instance)
        if has_other_finalizers(instance):
            # It may still run: keep reporting it.
            view = instance.view(compute.Instance)
            last = {
                gate.name: ConditionState.of(found)
                for gate in reasons.DECIDED_GATES
                if (found := conditions.find(view.status.conditions, gate.condition))
            }
            if last:
                decided = self._decide(cell, instance, last)
                instance = await self._write_status(cell, instance, decided)
            retry = await self._write_to_hub(cell, instance)
            return DONE if retry is None else after(retry)
        if await _is_replaced(cell, instance):
            return DONE  # hub copy and claim are the successor's; the cache's event follows
        self._env.fault("instance.before-release")
        await self._removal.clean_up(cell, self._hub_cluster(), instance)
        self._claims.forget(instance.metadata.uid)
        self._hub_failures.pop(instance.metadata.uid, None)
        self._starting.pop(instance.metadata.uid, None)
        return DONE

    async def _sweep_deleted(self, cell: Cluster, request: Request) -> Result:
        """Delete what is left on other planes of an Instance that no longer exists."""
        if await self._sweep.sweep(cell, self._hub_cluster(), request):
            self._sweep_failures.pop(request, None)
            return DONE
        failures = self._sweep_failures.get(request, 0)
        self._sweep_failures[request] = failures + 1
        return after(self._retry_delay(failures))

    def _hub_cluster(self) -> Cluster | None:
        return self._hub.get(HUB) if self._hub is not None else None


async def _ensure_finalizers(cell: Cluster, instance: Object) -> Object:
    """Only an Instance created by hand lacks them."""
    for finalizer in FINALIZERS:
        instance = await patch.ensure_metadata(
            cell.client, compute.INSTANCES, instance, finalizer=finalizer
        )
    return instance


def _is_unreported(instance: compute.Instance) -> bool:
    """Whether nothing was reported on it, and no gate holds it: it was created without gates."""
    ready = conditions.find(instance.status.conditions, compute.CONDITION_READY)
    return _may_start(instance) and (ready is None or ConditionState.of(ready) == _WITHOUT_REPORT)


def _may_start(instance: compute.Instance) -> bool:
    """Whether it has no gates, and no provider has reported on it yet."""
    if instance.gates:
        return False
    reported = (
        conditions.find(instance.status.conditions, type)
        for type in (compute.CONDITION_PROGRAMMED, compute.CONDITION_AVAILABLE)
    )
    return all(each is None or each.status == conditions.UNKNOWN for each in reported)


def _sooner(*given: float | None) -> Result:
    delays = [delay for delay in given if delay is not None]
    return after(min(delays)) if delays else DONE


async def _is_replaced(cell: Cluster, instance: Object) -> bool:
    """Whether the cell no longer has this Instance, or has another of its name, by a live read."""
    found = await find_live(cell.client, compute.INSTANCES, instance.name, instance.namespace)
    return found is None or found.metadata.uid != instance.metadata.uid
