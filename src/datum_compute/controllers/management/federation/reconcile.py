"""Reconciles one WorkloadDeployment of a project with its copy on the hub."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from datum_compute.api import conditions, core
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.controllers.management.federation import bindings, hub_objects, removal, status
from datum_compute.controllers.management.federation.interpreter import InterpreterCheck
from datum_compute.controllers.management.federation.policies import ensure_policy_removed
from datum_compute.controllers.management.federation.propagation import (
    SETTLE_SECONDS,
    PropagationCheck,
)
from datum_compute.controllers.management.federation.signals import FederationSignals
from datum_compute.controllers.planes import HUB, hub_namespace_of
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import readable
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.spec_copies import SpecCopies


class Federator:
    def __init__(
        self, projects: Fleet, hub: Fleet, env: Environment, signals: FederationSignals
    ) -> None:
        self._signals = signals
        self._projects = projects
        self._hub = hub
        self._env = env
        self._copies = SpecCopies()
        self._interpreter = InterpreterCheck(signals.registry, hub)
        self._drain_clock = removal.DrainClock()
        self._propagation = PropagationCheck(env, signals)
        self._refusals = _HubRefusals()

    async def reconcile(self, request: Request) -> Result:
        if not request.cluster:
            return DONE
        project = self._projects.get(request.cluster)
        if project is None:
            return DONE
        deployments = project.cache(compute.WORKLOAD_DEPLOYMENTS)
        deployment = deployments.get(request.name, request.namespace)
        if deployment is None:
            await self._remove_late_copy(project, request)
            return DONE
        hub = self._hub.require(HUB)
        self._interpreter.check(hub)
        if deployment.metadata.deleting:
            return await self._finalize(project, hub, deployment)
        return await self._federate(project, hub, deployment)

    async def _federate(self, project: Cluster, hub: Cluster, deployment: Object) -> Result:
        hub_namespace = await _require_hub_namespace(project, deployment)
        deployment = await patch.ensure_metadata(
            project.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            finalizer=compute.FINALIZER_FEDERATOR,
            annotations={compute.ANNOTATION_FEDERATION_NAMESPACE: hub_namespace},
        )
        self._env.fault("federation.before-hub-write")
        cached = hub.cache(compute.WORKLOAD_DEPLOYMENTS).get(deployment.name, hub_namespace)
        binding = bindings.binding_of(hub, hub_namespace, deployment.name)
        route = status.route_of(hub, binding)
        try:
            copy = await self._ensure_copy(project, hub, deployment, hub_namespace, cached)
        except errors.ClientError as error:
            if text := self._refusals.record(deployment, error):
                refused = replace(route, hub_refusal=text)
                await self._copy_status(project, deployment, cached, refused)
            raise
        self._refusals.forget(deployment)
        answers = bool(route.sole_cell and route.reachable)
        found = await self._propagation.check(hub, copy, binding, answers=answers)
        route = replace(
            route, lost=found.lost, behind=found.behind, behind_since=found.behind_since
        )
        await self._copy_status(project, deployment, copy, route)
        return DONE if found.delay is None else after(found.delay)

    async def _ensure_copy(
        self,
        project: Cluster,
        hub: Cluster,
        deployment: Object,
        hub_namespace: str,
        cached: Object | None,
    ) -> Object:
        """Ensure the hub namespace, the policy and the hub copy; returns the copy."""
        await hub_objects.ensure_namespace(hub, hub_namespace, project.name, deployment.namespace)
        await hub_objects.ensure_policy(hub, hub_namespace, hub_objects.city_of(deployment))
        hub_deployment = await hub_objects.ensure_deployment(
            hub.client, self._copies, project.name, deployment, hub_namespace, cached
        )
        self._signals.record_hub_write(cached, hub_deployment)
        return hub_deployment

    async def _copy_status(
        self,
        project: Cluster,
        deployment: Object,
        hub_deployment: Object | None,
        route: status.Route,
        wait: removal.RemovalWait | None = None,
    ) -> None:
        if not readable((deployment,), compute.WorkloadDeployment):
            return  # its deletion goes on without a report
        if wait is not None and wait.shown:
            route = replace(route, removal=(wait.reason, wait.message))
        wanted = status.build_status(deployment, hub_deployment, route, self._env.now())
        if wanted is not None:
            written = await patch.write_status(
                project.client, compute.WORKLOAD_DEPLOYMENTS, deployment, wanted
            )
            await self._signals.record_events(project, deployment, written)

    async def _finalize(self, project: Cluster, hub: Cluster, deployment: Object) -> Result:
        if compute.FINALIZER_FEDERATOR not in deployment.metadata.finalizers:
            return DONE
        hub_namespace = await _require_hub_namespace(project, deployment)
        cached = hub.cache(compute.WORKLOAD_DEPLOYMENTS).get(deployment.name, hub_namespace)
        binding = await bindings.find_binding(hub, hub_namespace, deployment.name)
        route = status.route_of(hub, binding)
        orphaned = binding is not None and bindings.is_orphaned(binding)
        drained_for = self._drain_clock.seconds(deployment)
        if cached is not None and not cached.metadata.deleting:
            wait = removal.decide_drain(
                deployment, cached, route, drained_for=drained_for, now=self._env.now()
            )
            await self._copy_status(project, deployment, cached, route, wait)
            if orphaned:
                # Karmada lets the copy adopt the binding when it is asked to look again.
                await self._propagation.check(hub, cached, binding)
                return after(removal.HUB_WAIT_SECONDS)
            if wait is not None:
                drained = await removal.scale_to_zero(hub.client, deployment, cached)
                self._signals.record_hub_write(cached, drained)
                return after(wait.delay)
            await patch.delete_if_present(hub.client, compute.WORKLOAD_DEPLOYMENTS, cached)
            self._signals.record_hub_write(cached, None)
            self._copies.forget(cached.metadata.uid)
            self._propagation.forget(cached.metadata.uid)
        elif cached is None and orphaned:
            # Garbage collection never deletes an orphaned binding. So the hub copy is created
            # again: Karmada lets it adopt the binding, and both are then deleted as usual.
            await self._ensure_copy(project, hub, deployment, hub_namespace, None)
            return after(removal.HUB_WAIT_SECONDS)
        if not await removal.is_deleted(hub, hub_namespace, deployment):
            wait = removal.decide_hub_wait(
                deployment, route, drained_for=drained_for, now=self._env.now()
            )
            if cached is None or cached.metadata.deleting:
                # The last report stays.
                await self._copy_status(project, deployment, deployment, route, wait)
            return after(wait.delay)
        for city in removal.cities_of(deployment):
            await ensure_policy_removed(hub.client, hub_namespace, city)
        self._env.fault("federation.before-release")
        await patch.release_finalizer(
            project.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            compute.FINALIZER_FEDERATOR,
        )
        self._drain_clock.forget(deployment)
        return DONE

    async def _remove_late_copy(self, project: Cluster, request: Request) -> None:
        """Delete a copy that arrived on the hub after its deployment was deleted. One without
        ``source-generation`` was not created by the federator."""
        hub_namespace = hub_namespace_of(project, request.namespace)
        if hub_namespace is None:
            return
        hub = self._hub.require(HUB)
        copy = hub.cache(compute.WORKLOAD_DEPLOYMENTS).get(request.name, hub_namespace)
        if copy is None or copy.metadata.deleting:
            return
        if compute.ANNOTATION_SOURCE_GENERATION not in copy.metadata.annotations:
            return
        deployments = compute.WORKLOAD_DEPLOYMENTS
        if await find_live(project.client, deployments, request.name, request.namespace):
            raise Waiting("the cache has not seen this deployment yet", 1.0)
        await patch.delete_if_present(hub.client, deployments, copy)
        self._signals.record_hub_write(copy, None)
        for city in removal.cities_of(copy):
            await ensure_policy_removed(hub.client, hub_namespace, city)
        self._copies.forget(copy.metadata.uid)


class _HubRefusals:
    """Since when the hub does not accept a deployment, by its uid, in the loop's time."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def record(self, deployment: Object, error: errors.ClientError) -> str:
        """What to report; empty while the cause may pass, and while the hub does not answer about
        a deployment that a cell runs already."""
        if isinstance(error, errors.Conflict | errors.AlreadyExists):
            return ""
        now = asyncio.get_running_loop().time()
        since = self._since.setdefault(deployment.metadata.uid, now)
        current = deployment.view(compute.WorkloadDeployment).status.conditions
        is_scheduled = conditions.is_true(current, compute.CONDITION_SCHEDULED)
        if is_scheduled and isinstance(error, errors.TransportFailure):
            return ""
        return str(error) if now - since >= SETTLE_SECONDS else ""

    def forget(self, deployment: Object) -> None:
        self._since.pop(deployment.metadata.uid, None)


async def _require_hub_namespace(project: Cluster, deployment: Object) -> str:
    """The hub namespace derived from the uid of the deployment's namespace, else the one recorded
    on the deployment: the record is for a namespace that no longer exists. The namespace is read
    live where there is neither."""
    recorded = deployment.metadata.annotations.get(compute.ANNOTATION_FEDERATION_NAMESPACE)
    known = hub_namespace_of(project, deployment.namespace) or recorded
    if known:
        return known
    namespace = await find_live(project.client, core.NAMESPACES, deployment.namespace)
    if namespace is None:
        raise NamespaceMissing(
            f"{project.name}/{deployment.namespace}/{deployment.name}: the project has no such"
            " namespace, so the hub namespace of the deployment is unknown"
        )
    return names.federation_namespace(namespace.metadata.uid)


class NamespaceMissing(Exception):
    """The namespace of a deployment is not found: retried, since hub objects may still exist."""
