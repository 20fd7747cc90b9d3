"""Reconciles one Workload of a project."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, Unreadable
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.services import v1alpha1 as services
from datum_compute.controllers.management.workload import deployments
from datum_compute.controllers.management.workload.signals import WorkloadSignals
from datum_compute.decisions.placement import PlacementPlan, decide_placement
from datum_compute.decisions.rollout.plan import RolloutPlan, decide_rollout
from datum_compute.decisions.rollout.state import RolloutAges
from datum_compute.decisions.rollup.workload import decide_workload_status
from datum_compute.decisions.suspension import is_project_suspended
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import readable, views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import find_live, has_live
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.workqueue.rate_limiter import RateLimiter
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import write_unreadable
from datum_compute.runtime.writes.spec_copies import SpecCopies

ENTITLEMENT = services.ServiceEntitlement


class WorkloadReconciler:
    def __init__(
        self, env: Environment, signals: WorkloadSignals, *, entitlements: bool = False
    ) -> None:
        self._signals = signals
        self._entitlements = entitlements
        self._env = env
        self._copies = SpecCopies()
        self._reports = RateLimiter()
        self._ages = RolloutAges()

    async def reconcile(self, project: Cluster, workload: Object) -> Result:
        if workload.metadata.deleting:
            return await self._remove(project, workload)
        try:
            workload.view(compute.Workload)
        except Unreadable as error:
            await write_unreadable(
                project.client,
                compute.WORKLOADS,
                workload,
                error,
                compute.CONDITION_AVAILABLE,
                now=self._env.now(),
            )
            raise
        workload = await patch.ensure_metadata(
            project.client, compute.WORKLOADS, workload, finalizer=compute.FINALIZER_WORKLOAD
        )
        suspended = _project_suspended(project) if self._entitlements else False
        if await deployments.ensure_suspension(project, workload, suspended):
            return DONE  # what was written is the next event
        found = {each.name: each for each in deployments.candidates_of(project, workload)}
        plan = _plan(project, workload, found.values())
        rollout = self._rollout(workload, plan, found)
        if rollout.needs_live_read:
            live = await _read_live(project, workload)
            if live is None:
                return DONE  # deleted or replaced; that event comes
            workload, found = live[0], {**found, **live[1]}
            plan = _plan(project, workload, found.values())
            rollout = self._rollout(workload, plan, found, live=True)
        written: Mapping[str, Object] = {}
        missing = _missing_networks(project, workload)
        delays: list[float | None] = []
        if not missing:
            written, delay = await deployments.ensure_deployments(
                project, self._copies, workload, plan, rollout, found, self._env.now(), suspended
            )
            delays.append(delay)
        result = await self._report(project, workload, plan, missing, rollout, written)
        delays.append(result.delay)
        if rollout.look_again is not None:
            delays.append(rollout.look_again.total_seconds())
        return Result(min((each for each in delays if each is not None), default=None))

    def _rollout(
        self,
        workload: Object,
        plan: PlacementPlan,
        found: Mapping[str, Object],
        *,
        live: bool = False,
    ) -> RolloutPlan:
        names = {each.name for each in plan.wanted}
        existing = [each for each in found.values() if each.name in names]
        ages = self._ages.see(
            workload.metadata.uid,
            {each.metadata.uid: each.metadata.annotations for each in existing},
            asyncio.get_running_loop().time(),
        )
        return decide_rollout(
            workload=workload.view(compute.Workload),
            template=patch.values(workload.spec).get("template") or {},
            wanted=plan.wanted,
            existing=deployments.existing_in(existing, ages),
            now=self._env.now(),
            live=live,
        )

    async def _report(
        self,
        project: Cluster,
        workload: Object,
        plan: PlacementPlan,
        missing: list[str],
        rollout: RolloutPlan | None = None,
        written: Mapping[str, Object] = MappingProxyType({}),
    ) -> Result:
        """``written``: deployments that the cache may not have seen yet. Without a ``rollout`` the
        conditions about it stay as they are."""
        left = self._reports.delay(workload.metadata.uid)
        if left > 0:
            return after(left)
        found = [
            written.get(each.name, each) for each in deployments.deployments_of(project, workload)
        ]
        status = compute.workload_status_to_wire(
            decide_workload_status(
                workload.view(compute.Workload),
                views(found, compute.WorkloadDeployment),
                plan=plan,
                now=self._env.now(),
                missing_networks=missing,
                rollout=rollout,
            )
        )
        if not patch.difference(patch.values(workload.status), status):
            return DONE
        stored = await patch.write_status(project.client, compute.WORKLOADS, workload, status)
        # Not before: after a refused write the limit would stand in for the growing delay.
        self._reports.spend(workload.metadata.uid)
        await self._signals.record_events(project, workload, stored)
        return DONE

    async def _remove(self, project: Cluster, workload: Object) -> Result:
        if compute.FINALIZER_WORKLOAD not in workload.metadata.finalizers:
            return DONE
        found = deployments.deployments_of(project, workload)
        await deployments.ensure_removed(project, found)
        if found:
            return await self._report(project, workload, _plan(project, workload, found), [])
        if await _has_live_deployments(project, workload):
            return after(1.0)
        self._ages.forget(workload.metadata.uid)
        self._env.fault("workload.before-release")
        await patch.release_finalizer(
            project.client, compute.WORKLOADS, workload, compute.FINALIZER_WORKLOAD
        )
        return DONE


def _missing_networks(project: Cluster, workload: Object) -> list[str]:
    networks = project.cache(networking.NETWORKS)
    interfaces = workload.view(compute.Workload).spec.template.spec.network_interfaces
    wanted = sorted({interface.network.name for interface in interfaces})
    return [name for name in wanted if networks.get(name, workload.namespace) is None]


def _plan(project: Cluster, workload: Object, candidates: Iterable[Object]) -> PlacementPlan:
    bindings = project.cache(networking.LOCATION_BINDINGS).list()
    return decide_placement(
        workload=workload.view(compute.Workload),
        bindings=views(bindings, networking.LocationBinding),
        deployments=views(candidates, compute.WorkloadDeployment),
    )


def _project_suspended(project: Cluster) -> bool | None:
    """None while that is not known."""
    cache = project.cache(services.SERVICE_ENTITLEMENTS)
    found = cache.get(services.ENTITLEMENT_COMPUTE)
    if not cache.synced or (found is not None and not readable((found,), ENTITLEMENT)):
        return None
    return found is not None and is_project_suspended(found.view(ENTITLEMENT))


async def _read_live(project: Cluster, workload: Object) -> tuple[Object, dict[str, Object]] | None:
    """This very Workload and its deployments as the server has them; None where it is deleted."""
    found = await find_live(project.client, compute.WORKLOADS, workload.name, workload.namespace)
    if found is None or found.metadata.uid != workload.metadata.uid or found.metadata.deleting:
        return None
    listed = await project.client.list(
        compute.WORKLOAD_DEPLOYMENTS,
        workload.namespace,
        label_selector=f"{compute.LABEL_WORKLOAD_UID}={workload.metadata.uid}",
    )
    return found, {each.name: each for each in listed.items}


async def _has_live_deployments(project: Cluster, workload: Object) -> bool:
    """By a live read, since the cache may be stale."""
    return await has_live(
        project.client,
        compute.WORKLOAD_DEPLOYMENTS,
        workload.namespace,
        label_selector=f"{compute.LABEL_WORKLOAD_UID}={workload.metadata.uid}",
    )
