"""Reconciles one WorkloadDeployment of a cell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.controllers.cell.contact import ContactMonitor
from datum_compute.controllers.cell.gates import ensure_gate_removed
from datum_compute.controllers.cell.workload_deployment import instances, networks, removal
from datum_compute.controllers.cell.workload_deployment.networks import NetworkState
from datum_compute.controllers.cell.workload_deployment.signals import DeploymentSignals
from datum_compute.decisions.instances.gates import gates_for_new, has_gate
from datum_compute.decisions.instances.plan import HeldStep, InstancePlan
from datum_compute.decisions.instances.policies import UnknownPolicy, find_policy
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.rollup.deployment import DeploymentContext, decide_deployment_status
from datum_compute.decisions.rollup.readiness import is_ready_due
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Terminal, Waiting, after
from datum_compute.runtime.workqueue.rate_limiter import RateLimiter
from datum_compute.runtime.writes import patch

ROLLING_SECONDS = 30.0
"""How often a roll is checked: contact is lost without an event, and the status must then
report the roll as held."""

_Failure = errors.ClientError | Waiting | Terminal


@dataclass(frozen=True, slots=True)
class _Remembered:
    depends_on: tuple[object, ...]
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
    ) -> None:
        self._cell = cell
        self._signals = signals
        self._contacts = contacts
        self._env = env
        self._networking = networking
        self._reports = RateLimiter()
        self._plans: dict[Request, _Remembered] = {}

    async def reconcile(self, request: Request) -> Result:
        cell = self._cell.get(request.cluster)
        if cell is None:
            return DONE
        cache = cell.cache(compute.WORKLOAD_DEPLOYMENTS)
        deployment = cache.get(request.name, request.namespace)
        if deployment is None or deployment.metadata.deleting:
            self._plans.pop(request, None)
        if deployment is None:
            return DONE
        if deployment.metadata.deleting:
            return await self._remove(cell, deployment)
        # Continue with the result: no event may follow a finalizer alone.
        deployment = await patch.ensure_metadata(
            cell.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            finalizer=compute.FINALIZER_WORKLOAD_DEPLOYMENT,
        )
        return await self._keep(cell, deployment, request)

    async def _keep(self, cell: Cluster, deployment: Object, request: Request) -> Result:
        """Every step is tried and the status is always written; then the first failure, if
        any, is raised."""
        failures: list[_Failure] = []
        state = NetworkState(ready=False, location=None, located=True)
        try:
            state = await self._network_state(cell, deployment)
        except errors.ClientError as error:
            failures.append(error)
        found = instances.instances_of(cell, deployment)
        views = [each.view(compute.Instance) for each in found]
        revision = _revision(deployment)
        # Without contact a replacement might not be allowed to start.
        hold_rolls = self._contacts.hold_rolls(cell, deployment.namespace)
        plan, refusal = InstancePlan(), ""
        try:
            plan = self._plan(request, deployment, views, revision, hold_rolls)
            await self._carry_out(cell, deployment, plan, revision, state)
            await self._signals.record_actions(cell, deployment, found, plan.actions)
            if state.ready:
                await _open_network_gates(cell, found, views)
        except (errors.ClientError, Waiting, Terminal) as error:
            failures.append(error)
            refusal = _refusal(error)
        result = await self._report(
            cell, deployment, views, revision, state, plan.held, refusal=refusal
        )
        if failures:
            raise failures[0]
        if result.delay is None and hold_rolls:
            return after(self._contacts.requeue_after(deployment.namespace))
        if result.delay is None and plan.rolling:
            return after(ROLLING_SECONDS)
        return result

    async def _network_state(self, cell: Cluster, deployment: Object) -> NetworkState:
        if not self._networking:
            return networks.INTEGRATION_OFF
        return await networks.ensure_networks(cell, deployment)

    def _plan(
        self,
        request: Request,
        deployment: Object,
        views: list[compute.Instance],
        revision: str,
        hold_rolls: str,
    ) -> InstancePlan:
        """The plan, decided again only when its inputs have changed: most reconciles are
        about conditions, which only the status depends on."""
        depends_on = (
            deployment.metadata.uid,
            bytes(deployment.spec),
            hold_rolls,
            # An unchanged Instance has the identical tuple, which compares by identity.
            [each.plan_key for each in views],
        )
        known = self._plans.get(request)
        if known is not None and known.depends_on == depends_on:
            return known.plan
        spec = deployment.view(compute.WorkloadDeployment).spec
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
        )
        self._plans[request] = _Remembered(depends_on, plan)
        return plan

    async def _carry_out(
        self,
        cell: Cluster,
        deployment: Object,
        plan: InstancePlan,
        revision: str,
        state: NetworkState,
    ) -> None:
        view = deployment.view(compute.WorkloadDeployment)
        parameters = instances.InstanceParameters(
            deployment,
            revision,
            state.location or view.status.location,
            gates_for_new(networks_ready=state.ready),
        )
        await instances.apply_actions(cell, self._env, parameters, plan.actions)

    async def _report(
        self,
        cell: Cluster,
        deployment: Object,
        views: list[compute.Instance],
        revision: str,
        state: NetworkState,
        held: Sequence[HeldStep] = (),
        *,
        refusal: str = "",
    ) -> Result:
        left = self._reports.delay(deployment.metadata.uid)
        if left > 0:
            # Before anything is counted: with many Instances that is most of a reconcile.
            return after(left)
        if left := self._held(deployment, views):
            return after(left)
        status = compute.deployment_status_to_wire(
            decide_deployment_status(
                deployment.view(compute.WorkloadDeployment),
                views,
                template_hash=revision,
                context=DeploymentContext(
                    location=state.location,
                    location_needed=not state.located,
                    networks_ready=state.ready,
                    refusal=refusal,
                ),
                held=held,
                now=self._env.now(),
            )
        )
        if not patch.difference(patch.values(deployment.status), status):
            return DONE
        self._reports.spend(deployment.metadata.uid)
        # No other writer, on a single cluster neither: no federator runs there.
        written = await patch.write_status(
            cell.client, compute.WORKLOAD_DEPLOYMENTS, deployment, status
        )
        await self._signals.record_events(cell, deployment, written)
        return DONE

    def _held(self, deployment: Object, views: Sequence[compute.Instance]) -> float:
        """Seconds to wait for Ready of an Instance whose provider has just reported: a status
        without it would delay the one that counts."""
        uid = deployment.metadata.uid
        if any(is_ready_due(each) for each in views):
            return self._reports.hold(uid)
        self._reports.release(uid)
        return 0.0

    async def _remove(self, cell: Cluster, deployment: Object) -> Result:
        if compute.FINALIZER_WORKLOAD_DEPLOYMENT not in deployment.metadata.finalizers:
            return DONE
        found = await removal.remove(cell, deployment)
        if not found:
            return DONE
        views = [each.view(compute.Instance) for each in found]
        return await self._report(
            cell, deployment, views, _revision(deployment), networks.INTEGRATION_OFF
        )


def _refusal(error: _Failure) -> str:
    """Why the cell rejects Instances of this template; empty for any other failure."""
    if not isinstance(error, errors.Invalid):
        return ""
    faults = [f"{cause.field}: {cause.message}" for cause in error.causes]
    return ", ".join(faults) or error.message


def _revision(deployment: Object) -> str:
    return _revision_of(bytes(deployment.spec))


@lru_cache(maxsize=256)  # needed in every reconcile, changes only with the spec
def _revision_of(spec: bytes) -> str:
    return template_hash(json.loads(spec or b"{}").get("template") or {})


async def _open_network_gates(
    cell: Cluster, found: list[Object], views: list[compute.Instance]
) -> None:
    for instance, view in zip(found, views, strict=True):
        if view.gates and has_gate(view, compute.GATE_NETWORK) and not view.metadata.deleting:
            await ensure_gate_removed(cell.client, instance, compute.GATE_NETWORK)
