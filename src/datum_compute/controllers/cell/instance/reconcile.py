"""One Instance of a cell."""

from __future__ import annotations

import asyncio

from datum_compute.api import conditions
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors
from datum_compute.controllers.cell.gates import ensure_gate_removed
from datum_compute.controllers.cell.instance.quota import ClaimManager
from datum_compute.controllers.cell.instance.removal import FINALIZERS, Removal, is_held_by_others
from datum_compute.controllers.cell.instance.signals import InstanceSignals
from datum_compute.controllers.cell.instance.status import DecidedStatus, decide_instance_status
from datum_compute.controllers.cell.instance.sweep import Sweep
from datum_compute.controllers.cell.instance.write_back import WriteBack
from datum_compute.controllers.planes import HUB
from datum_compute.decisions.quota import pending_requeue
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
"""When a hub that was not to be had is tried again. The cap is that of a watch: whoever is
back is heard of no sooner."""
HUB_RETRY_SECONDS = 1.0
"""The soonest."""

START_SECONDS = 1.0
"""How long the hub is not told of an Instance that may run now, for the provider's first
word. Where that comes at once, one report takes the place of two on hub and project."""


class InstanceReconciler:
    def __init__(
        self,
        cell: Fleet,
        hub: Fleet | None,
        env: Environment,
        desk: ClaimManager,
        write_back: WriteBack,
        signals: InstanceSignals,
        *,
        networking: bool,
    ) -> None:
        self._cell = cell
        self._hub = hub
        self._env = env
        self._desk = desk
        self._write_back = write_back
        self._signals = signals
        self._removal = Removal(desk, write_back, signals)
        self._sweep = Sweep(desk, write_back)
        self._networking = networking
        self._hub_failures: dict[str, int] = {}  # by uid of an Instance, since it was last told
        self._unswept: dict[Request, int] = {}  # how often a plane was away
        self._starting: dict[str, float] = {}  # by uid: until when its first word is awaited

    async def reconcile(self, request: Request) -> Result:
        cell = self._cell.get(request.cluster)
        if cell is None:
            return DONE
        instance = cell.cache(compute.INSTANCES).get(request.name, request.namespace)
        if instance is None:
            return await self._end_without(cell, request)
        if instance.metadata.deleting:
            return await self._end(cell, instance)
        instance = await _ensure_finalizers(cell, instance)
        answer = await self._desk.evaluate(cell, instance)
        if answer.due_in > 0:
            # Nothing has been decided; the answer, or this delay, brings the whole pass.
            return after(answer.due_in)
        self._signals.evaluated(answer.verdict)
        # Known before anything below can fail: a missed answer never strands an Instance.
        requeue = self._safety_requeue(instance, answer.verdict)
        try:
            instance = await self._report(cell, instance, answer.verdict)
            if (due_in := self._first_word_due_in(instance)) > 0:
                return _sooner(requeue, answer.requeue_after, due_in)
            return _sooner(requeue, answer.requeue_after, await self._tell_hub(cell, instance))
        except errors.Conflict:
            if requeue is None:
                raise
            log.info("conflict while quota is pending", name=instance.name)
            return after(requeue)

    def _safety_requeue(self, instance: Object, verdict: ConditionState) -> float | None:
        if verdict.status == conditions.TRUE:
            return None
        return pending_requeue(instance.metadata.creation_timestamp, self._env.now())

    async def _report(self, cell: Cluster, instance: Object, verdict: ConditionState) -> Object:
        """One status write, and the gate in the same pass: a grant that is written but not
        acted upon would have nobody to act upon it later."""
        outlook = self._outlook(cell, instance, verdict)
        instance = await self._write_status(cell, instance, outlook)
        if outlook.clears_quota_gate:
            self._env.fault("instance.before-gate")
            instance = await ensure_gate_removed(cell.client, instance, compute.GATE_QUOTA)
            if self._hub is not None:
                until = asyncio.get_running_loop().time() + START_SECONDS
                self._starting[instance.metadata.uid] = until
        return instance

    def _first_word_due_in(self, instance: Object) -> float:
        """Seconds for which the provider's first word is worth waiting for. Not remembered
        over a restart: then the Instance is simply reported as it is."""
        uid = instance.metadata.uid
        until = self._starting.get(uid)
        if until is None:
            return 0.0
        left = until - asyncio.get_running_loop().time()
        if left > 0 and _may_start(instance.view(compute.Instance)):
            return left
        del self._starting[uid]
        return 0.0

    def _outlook(self, cell: Cluster, instance: Object, verdict: ConditionState) -> DecidedStatus:
        return decide_instance_status(
            instance.view(compute.Instance),
            verdict,
            now=self._env.now(),
            network_failure=self._network_failure(cell, instance),
        )

    async def _write_status(
        self, cell: Cluster, instance: Object, outlook: DecidedStatus
    ) -> Object:
        before = instance.view(compute.Instance).status.conditions
        if outlook.conditions == before:
            await self._signals.record_no_budget(cell, instance)
            return instance  # most passes have nothing new to say
        status = {
            **patch.values(instance.status),
            "conditions": conditions.to_wire(outlook.conditions),
        }
        instance = await patch.write_status(cell.client, compute.INSTANCES, instance, status)
        await self._signals.record_events(cell, instance, before)
        return instance

    def _network_failure(self, cell: Cluster, instance: Object) -> str | None:
        """The message of a binding of its deployment that failed for good."""
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

    async def _tell_hub(self, cell: Cluster, instance: Object) -> float | None:
        """The copy on the hub; seconds until another try when the hub, or who is to own the
        copy there, was not to be had."""
        uid = instance.metadata.uid
        if self._hub is None or await self._has_told(cell, self._hub_cluster(), instance):
            self._hub_failures.pop(uid, None)
            return None
        failures = self._hub_failures.get(uid, 0)
        self._hub_failures[uid] = failures + 1
        return self._try_again_in(failures)

    def _try_again_in(self, failures: int) -> float:
        chance = self._env.random("controllers.instance.hub").random()
        return max(HUB_RETRY_SECONDS, HUB_RETRY.delay(failures, chance))

    async def _has_told(self, cell: Cluster, hub: Cluster | None, instance: Object) -> bool:
        if hub is None or not self._write_back.has_synced(hub):
            return False
        another = self._write_back.has_copy_of_another(hub, instance)
        if another and await _is_replaced(cell, instance):
            raise Waiting("the cache has not seen the successor of this Instance yet", 1.0)
        try:
            return await self._write_back.ensure_copy(hub, instance)
        except errors.TransportFailure as error:
            self._signals.not_reported()
            log.info("the hub is away", reason=str(error))
            return False

    async def _end(self, cell: Cluster, instance: Object) -> Result:
        if not any(name in FINALIZERS for name in instance.metadata.finalizers):
            return DONE
        await self._signals.terminating(cell, instance)
        if is_held_by_others(instance):
            # Something of it may still run: go on telling how it is doing.
            view = instance.view(compute.Instance)
            granted = conditions.find(view.status.conditions, compute.CONDITION_QUOTA_GRANTED)
            if granted is not None:
                said = ConditionState.of(granted)
                outlook = self._outlook(cell, instance, said)
                instance = await self._write_status(cell, instance, outlook)
            retry = await self._tell_hub(cell, instance)
            return DONE if retry is None else after(retry)
        if await _is_replaced(cell, instance):
            return DONE  # what is elsewhere belongs to its successor; a late event brings us back
        self._env.fault("instance.before-release")
        await self._removal.clean_up(cell, self._hub_cluster(), instance)
        self._desk.forget(instance.metadata.uid)
        self._hub_failures.pop(instance.metadata.uid, None)
        self._starting.pop(instance.metadata.uid, None)
        return DONE

    async def _end_without(self, cell: Cluster, request: Request) -> Result:
        """Of an Instance that is gone, what is left of it elsewhere."""
        if await self._sweep.sweep(cell, self._hub_cluster(), request):
            self._unswept.pop(request, None)
            return DONE
        failures = self._unswept.get(request, 0)
        self._unswept[request] = failures + 1
        return after(self._try_again_in(failures))

    def _hub_cluster(self) -> Cluster | None:
        return self._hub.get(HUB) if self._hub is not None else None


async def _ensure_finalizers(cell: Cluster, instance: Object) -> Object:
    """Ours are there from creation; a hand-made Instance gets them here."""
    for finalizer in FINALIZERS:
        instance = await patch.ensure_metadata(
            cell.client, compute.INSTANCES, instance, finalizer=finalizer
        )
    return instance


def _may_start(instance: compute.Instance) -> bool:
    """Whether nothing holds it, and no provider has spoken of it yet."""
    if instance.gates:
        return False
    said = (
        conditions.find(instance.status.conditions, type)
        for type in (compute.CONDITION_PROGRAMMED, compute.CONDITION_AVAILABLE)
    )
    return all(each is None or each.status == conditions.UNKNOWN for each in said)


def _sooner(*given: float | None) -> Result:
    delays = [delay for delay in given if delay is not None]
    return after(min(delays)) if delays else DONE


async def _is_replaced(cell: Cluster, instance: Object) -> bool:
    """Whether the cell has a successor of this Instance, or none; deleting counts as there."""
    found = await find_live(cell.client, compute.INSTANCES, instance.name, instance.namespace)
    return found is None or found.metadata.uid != instance.metadata.uid
