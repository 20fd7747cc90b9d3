"""Reconciles one projection with the hub Instance of the same name."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.compute.instance_names import deployment_of
from datum_compute.api.meta import Object
from datum_compute.controllers.management.projection import copy
from datum_compute.controllers.management.projection.signals import ProjectionSignals
from datum_compute.controllers.planes import HUB, hub_namespace_of
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live, is_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.spec_copies import SpecCopies

OWNER_RETRY_SECONDS = 5.0
"""How often a missing owner is checked; its creation triggers a reconcile sooner."""
QUARANTINED_RETRY_SECONDS = 300.0
"""The same, once the Instance is quarantined."""


class Projector:
    def __init__(self, projects: Fleet, hub: Fleet, signals: ProjectionSignals) -> None:
        self._signals = signals
        self._quarantine = signals.quarantine
        self._projects = projects
        self._hub = hub
        self._copies = SpecCopies()

    async def reconcile(self, request: Request) -> Result:
        project = self._projects.get(request.cluster)
        if project is None:
            return DONE
        hub = self._hub.require(HUB)
        projection = project.cache(compute.INSTANCES).get(request.name, request.namespace)
        hub_namespace = hub_namespace_of(project, request.namespace)
        if hub_namespace is None:
            return DONE  # the namespace is deleted, and everything in it
        hub_instance = hub.cache(compute.INSTANCES).get(request.name, hub_namespace)
        if hub_instance is None:
            self._quarantine.release(hub_namespace, request.name)
            return await self._remove(project, hub, projection, hub_namespace, request.name)
        if hub_instance.metadata.deleting:
            return DONE  # the projection stays until the hub Instance is gone
        return await self._project(project, hub, request, hub_instance, projection)

    async def _project(
        self,
        project: Cluster,
        hub: Cluster,
        request: Request,
        hub_instance: Object,
        projection: Object | None,
    ) -> Result:
        owner_name = deployment_of(hub_instance.metadata.labels, hub_instance.name)
        if not owner_name:
            return DONE  # the quarantine has logged it
        owner = project.cache(compute.WORKLOAD_DEPLOYMENTS).get(owner_name, request.namespace)
        if owner is None:
            # Not created yet; or deleted, and the hub copy and the projection are deleted next.
            is_quarantined = self._quarantine.record_missing_owner(hub_instance)
            return after(QUARANTINED_RETRY_SECONDS if is_quarantined else OWNER_RETRY_SECONDS)
        self._quarantine.release(hub_instance.namespace, hub_instance.name)
        if projection is not None and copy.is_of_predecessor(projection, hub_instance):
            # With a stale cache of the hub it may be the other way round: the hub Instance is the
            # predecessor, and the projection is of its successor.
            if not await is_live(hub.client, compute.INSTANCES, hub_instance):
                raise Waiting("the cache has not seen this hub Instance yet", 1.0)
            await patch.delete_if_present(project.client, compute.INSTANCES, projection)
            if projection.metadata.finalizers:
                raise Waiting("a predecessor is being deleted", OWNER_RETRY_SECONDS)
            projection = None
        if projection is not None and projection.metadata.deleting:
            return DONE  # its deletion triggers a reconcile that creates it again
        written = await copy.ensure_projection(
            project.client, self._copies, hub_instance, owner, projection
        )
        await self._signals.record_projection(project, projection, written)
        return DONE

    async def _remove(
        self,
        project: Cluster,
        hub: Cluster,
        projection: Object | None,
        hub_namespace: str,
        name: str,
    ) -> Result:
        if projection is None or not copy.is_projection(projection):
            return DONE
        if projection.metadata.deleting:
            return DONE
        if await find_live(hub.client, compute.INSTANCES, name, hub_namespace):
            raise Waiting("the cache has not seen this hub Instance yet", 1.0)
        await patch.delete_if_present(project.client, compute.INSTANCES, projection)
        self._copies.forget(projection.metadata.uid)
        return DONE
