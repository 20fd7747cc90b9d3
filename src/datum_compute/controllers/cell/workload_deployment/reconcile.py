"""Reconciles one WorkloadDeployment of a cell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from datum_compute.api import conditions
from datum_compute.api.compute import reasons
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.api.meta import Object, Unreadable
from datum_compute.client import errors
from datum_compute.controllers.cell.contact import ContactMonitor
from datum_compute.controllers.cell.gates import ensure_gates_removed
from datum_compute.controllers.cell.referenced_data import (
    ARRIVAL_SECONDS,
    CellData,
    template_references,
)
from datum_compute.controllers.cell.workload_deployment import instances, networks, removal
from datum_compute.controllers.cell.workload_deployment.networks import NetworkState
from datum_compute.controllers.cell.workload_deployment.orphans import (
    MANAGED,
    OrphanCheck,
    OrphanMonitor,
    orphaned_condition,
)
from datum_compute.controllers.cell.workload_deployment.signals import DeploymentSignals
from datum_compute.decisions.instances.gates import gates_for_new, has_gate
from datum_compute.decisions.instances.plan import NO_PLAN, InstancePlan
from datum_compute.decisions.instances.policies import UnknownPolicy, find_policy
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.rollup.deployment import DeploymentContext, decide_deployment_status
from datum_compute.decisions.rollup.readiness import is_ready_due
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.cache import quarantine
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Terminal, Waiting, after
from datum_compute.runtime.workqueue.rate_limiter import RateLimiter
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import write_unreadable

logger = get_logger(__name__)

ROLLING_SECONDS = 30.0
"""How often a roll is checked: no event follows when contact is lost, and the status must then
report the roll as held."""

_Failure = errors.ClientError | Waiting | Terminal


@dataclass(frozen=True, slots=True)
class _CachedPlan:
    inputs: tuple[object, ...]
    plan: InstancePlan


class DeploymentReconciler:
    def __init__(
        self,
        cell: Fleet,
        env: Environment,
        *,
        networking: bool,
        contacts: ContactMonitor,
        signals: DeploymentSignals,
        orphans: OrphanMonitor,
        data: CellData,
    ) -> None:
        self._cell = cell
        self._data = data
        self._orphans = orphans
        self._signals = signals
        self._contacts = contacts
        self._env = env
        self._networking = networking
        self._reports = RateLimiter()
        self._plans: dict[Request, _CachedPlan] = {}
        self._ready_networks: dict[Request, tuple[tuple[object, ...], NetworkState]] = {}
        self._restorer = instances.InstanceRestorer()

    async def reconcile(self, request: Request) -> Result:
        cell = self._cell.get(request.cluster)
        if cell is None:
            return DONE
        cache = cell.cache(compute.WORKLOAD_DEPLOYMENTS)
        deployment = cache.get(request.name, request.namespace)
        if deployment is None or deployment.metadata.deleting:
            self._plans.pop(request, None)
            self._ready_networks.pop(request, None)
            self._orphans.forget(request)
        if deployment is None:
            return DONE
        if deployment.metadata.deleting:
            return await self._remove(cell, deployment)
        try:
            deployment.view(compute.WorkloadDeployment)
        except Unreadable as error:
            await write_unreadable(
                cell.client,
                compute.WORKLOAD_DEPLOYMENTS,
                deployment,
                error,
                compute.CONDITION_AVAILABLE,
                compute.CONDITION_REPLICAS_READY,
                now=self._env.now(),
            )
            raise
        # Continue with the stored object: adding a finalizer may trigger no other reconcile.
        deployment = await patch.ensure_metadata(
            cell.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            finalizer=compute.FINALIZER_WORKLOAD_DEPLOYMENT,
        )
        orphan = await self._orphans.check(cell, deployment, request)
        if orphan.deleted:
            return DONE  # its deletion is the next event
        result = await self._sync(cell, deployment, request, orphan)
        delays = [each for each in (result.delay, orphan.delay) if each is not None]
        return after(min(delays)) if delays else DONE

    async def _sync(
        self, cell: Cluster, deployment: Object, request: Request, orphan: OrphanCheck
    ) -> Result:
        """Try every step and write the status in any case; then raise the first failure, if
        any."""
        failures: list[_Failure] = []
        state = NetworkState(ready=False, location=None, located=True)
        try:
            state = await self._network_state(cell, deployment, request)
        except errors.ClientError as error:
            failures.append(error)
        revision = _revision(deployment)
        found, failure = await self._restorer.ensure(
            cell,
            self._parameters(deployment, revision, state),
            instances.instances_of(cell, deployment),
        )
        if failure is not None:
            failures.append(failure)
        views = [each.view(compute.Instance) for each in found]
        data = await self._data_condition(cell, deployment)
        # A replacement needs quota from the project, so without contact it might not start; nor
        # would it without its data.
        lost_contact = self._contacts.hold_rolls(cell, deployment.namespace)
        hold_rolls = lost_contact or (
            data.reason if data and data.status != conditions.TRUE else ""
        )
        plan, refusal = NO_PLAN, ""
        try:
            plan = self._plan(request, deployment, views, revision, hold_rolls)
            await self._carry_out(cell, deployment, plan, revision, state)
            await self._signals.record_actions(cell, deployment, found, plan.actions)
            if state.ready:
                await _remove_network_gates(cell, found, views)
        except (errors.ClientError, Waiting, Terminal) as error:
            failures.append(error)
            refusal = _refusal(error)
        result = await self._report(
            cell,
            deployment,
            views,
            revision,
            state,
            plan,
            refusal=refusal,
            orphan=orphan,
            data=data,
        )
        if failures:
            raise failures[0]
        if result.delay is None and lost_contact:
            return after(self._contacts.requeue_after(deployment.namespace))
        if result.delay is None and data and data.reason == compute.REASON_AWAITING_PROPAGATION:
            return after(ARRIVAL_SECONDS)
        if result.delay is None and plan.rolling:
            return after(ROLLING_SECONDS)
        return result

    async def _data_condition(self, cell: Cluster, deployment: Object) -> ConditionState | None:
        view = deployment.view(compute.WorkloadDeployment)
        references = template_references(deployment)
        template = view.spec.template.metadata.annotations
        current = view.status.conditions
        return await self._data.condition(cell, deployment, references, current, template)

    def _parameters(
        self, deployment: Object, revision: str, state: NetworkState
    ) -> instances.InstanceParameters:
        view = deployment.view(compute.WorkloadDeployment)
        return instances.InstanceParameters(
            deployment,
            revision,
            state.location or view.status.location,
            gates_for_new(
                view.spec.template,
                networks_ready=state.ready,
                quota_enforced=self._contacts.quota_enforced,
                data_federated=self._data.is_federated,
            ),
        )

    async def _network_state(
        self, cell: Cluster, deployment: Object, request: Request
    ) -> NetworkState:
        """Networks that were ready stay so while nothing that this depends on has changed."""
        if not self._networking:
            return networks.NO_NETWORKING
        owner = (deployment.metadata.uid, bytes(deployment.spec))
        inputs = (*owner, *networks.content_read(cell))
        known = self._ready_networks.get(request)
        if known is not None and known[0] == inputs:
            return known[1]
        state = await networks.ensure_networks(cell, deployment)
        if state.ready:
            self._ready_networks[request] = (inputs, state)
        return state

    def _plan(
        self,
        request: Request,
        deployment: Object,
        views: list[compute.Instance],
        revision: str,
        hold_rolls: str,
    ) -> InstancePlan:
        """The plan, decided again only when its inputs have changed. Most reconciles follow a
        change of conditions, which only the status depends on."""
        inputs = (
            deployment.metadata.uid,
            bytes(deployment.spec),
            deployment.view(compute.WorkloadDeployment).suspended_by,
            hold_rolls,
            # The key of an unchanged Instance is the identical tuple, so comparing is cheap.
            [each.plan_key for each in views],
        )
        known = self._plans.get(request)
        if known is not None and known.inputs == inputs:
            return known.plan
        view = deployment.view(compute.WorkloadDeployment)
        spec = view.spec
        try:
            policy = find_policy(spec.scale_settings.instance_management_policy)
        except UnknownPolicy as error:
            raise Terminal(str(error)) from error
        plan = policy(
            deployment_name=deployment.name,
            desired=spec.scale_settings.min_replicas,
            template_hash=revision,
            labels_for=instances.controller_labels(deployment),
            instances=views,
            hold_rolls=hold_rolls,
            suspended=bool(view.suspended_by),
        )
        _log_waiting(deployment, plan, known.plan if known is not None else NO_PLAN)
        self._plans[request] = _CachedPlan(inputs, plan)
        return plan

    async def _carry_out(
        self,
        cell: Cluster,
        deployment: Object,
        plan: InstancePlan,
        revision: str,
        state: NetworkState,
    ) -> None:
        parameters = self._parameters(deployment, revision, state)
        await instances.apply_actions(cell, self._env, parameters, plan.actions)

    async def _report(
        self,
        cell: Cluster,
        deployment: Object,
        views: list[compute.Instance],
        revision: str,
        state: NetworkState,
        plan: InstancePlan = NO_PLAN,
        *,
        refusal: str = "",
        orphan: OrphanCheck = MANAGED,
        data: ConditionState | None = None,
    ) -> Result:
        # With no step left, no other report follows that this one could be part of.
        complete = plan is not NO_PLAN and not plan.actions
        left = self._reports.delay(deployment.metadata.uid, urgent=complete)
        if left > 0:
            # Before Instances are counted: with many Instances that is most of a reconcile.
            return after(left)
        if left := self._ready_due_in(deployment, views):
            return after(left)
        decided = decide_deployment_status(
            deployment.view(compute.WorkloadDeployment),
            views,
            template_hash=revision,
            context=DeploymentContext(
                location=state.location,
                location_needed=not state.located,
                networks_ready=state.ready,
                referenced_data=data,
                refusal=refusal,
            ),
            plan=plan,
            now=self._env.now(),
        )
        orphaned = orphaned_condition(deployment, orphan, self._env.now())
        others = conditions.without(decided.conditions, compute.CONDITION_FOUND_ON_HUB)
        decided = msgspec.structs.replace(decided, conditions=(*others, *orphaned))
        status = compute.deployment_status_to_wire(decided)
        if not patch.difference(patch.values(deployment.status), status):
            return DONE
        # The only writer: the federator writes in projects, and does not run on a single cluster.
        started = asyncio.get_running_loop().time()
        written = await patch.write_status(
            cell.client, compute.WORKLOAD_DEPLOYMENTS, deployment, status
        )
        # Not before: after a refused write the limit would stand in for the growing delay.
        took = asyncio.get_running_loop().time() - started
        self._reports.spend(deployment.metadata.uid, took=took)
        await self._signals.record_events(cell, deployment, written)
        _log_blocked(deployment, written, plan)
        return DONE

    def _ready_due_in(self, deployment: Object, views: Sequence[compute.Instance]) -> float:
        """Seconds to wait for Ready of an Instance whose provider has just reported. A status
        written now would delay the one with Ready by the rate limit."""
        uid = deployment.metadata.uid
        if any(is_ready_due(each) for each in views):
            return self._reports.hold(uid)
        self._reports.release(uid)
        return 0.0

    async def _remove(self, cell: Cluster, deployment: Object) -> Result:
        if compute.FINALIZER_WORKLOAD_DEPLOYMENT not in deployment.metadata.finalizers:
            return DONE
        self._restorer.forget(deployment)
        found = await removal.remove(cell, deployment)
        if not found:
            return DONE
        deployment.view(compute.WorkloadDeployment)  # before anything reads its spec
        views = quarantine.views(found, compute.Instance)
        return await self._report(
            cell, deployment, views, _revision(deployment), networks.NO_NETWORKING
        )


def _log_blocked(deployment: Object, written: Object, plan: InstancePlan) -> None:
    """Log that steps wait for an Instance that will not be ready before the user or the platform
    acts, once per reason."""
    before, now = (
        conditions.find(
            each.view(compute.WorkloadDeployment).status.conditions,
            compute.CONDITION_REPLICAS_READY,
        )
        for each in (deployment, written)
    )
    if not plan.queued or now is None or now.status != conditions.FALSE:
        return
    is_new = before is None or before.reason != now.reason
    if is_new and reasons.lookup(now.reason).needs_action:
        logger.info(
            "steps wait for an Instance that is not ready",
            namespace=deployment.namespace,
            name=deployment.name,
            steps=len(plan.queued),
            behind=str(plan.actions[0]) if plan.actions else "",
            reason=now.reason,
        )


def _log_waiting(deployment: Object, plan: InstancePlan, before: InstancePlan) -> None:
    """Log what is not carried out yet, where that has changed: steps that wait for the first one,
    and steps that are held back, which the status reports too."""
    fields = {"namespace": deployment.namespace, "name": deployment.name}
    if plan.queued and plan.queued != before.queued:
        first = plan.actions[0] if plan.actions else None
        logger.debug("steps wait", steps=len(plan.queued), behind=str(first), **fields)
    if plan.held and plan.held != before.held:
        reason = plan.held[0].reason
        logger.info("steps are held back", steps=len(plan.held), reason=reason, **fields)


def _refusal(error: _Failure) -> str:
    """Why the cell rejects Instances of this template; empty for any other failure."""
    if not isinstance(error, errors.Invalid):
        return ""
    faults = [f"{cause.field}: {cause.message}" for cause in error.causes]
    return ", ".join(faults) or error.message


def _revision(deployment: Object) -> str:
    return _revision_of(bytes(deployment.spec))


@lru_cache(maxsize=256)  # every reconcile needs it, and it changes only with the spec
def _revision_of(spec: bytes) -> str:
    return template_hash((json.loads(spec or b"{}") or {}).get("template") or {})


async def _remove_network_gates(
    cell: Cluster, found: list[Object], views: list[compute.Instance]
) -> None:
    for instance, view in zip(found, views, strict=True):
        if view.gates and has_gate(view, compute.GATE_NETWORK) and not view.metadata.deleting:
            await ensure_gates_removed(cell.client, instance, compute.GATE_NETWORK)
