"""One Instance of a project plane, from what the hub holds under the same name."""

from __future__ import annotations

from datum_compute.api import core
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.controllers.management.projection import copy
from datum_compute.controllers.management.projection.origin import deployment_name
from datum_compute.controllers.management.projection.signals import ProjectionSignals
from datum_compute.controllers.planes import hub_of
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.spec_copies import SpecCopies

OWNER_RETRY_SECONDS = 5.0
"""The floor while an owner is awaited; its appearance wakes the Instance sooner."""
HOPELESS_RETRY_SECONDS = 300.0
"""The same, once it has been away for long."""


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
        hub = hub_of(self._hub)
        projection = project.cache(compute.INSTANCES).get(request.name, request.namespace)
        hub_namespace = _hub_namespace(project, request.namespace)
        if hub_namespace is None:
            return DONE  # its namespace is gone, and with it everything it held
        hub_instance = hub.cache(compute.INSTANCES).get(request.name, hub_namespace)
        if hub_instance is None:
            self._quarantine.release(hub_namespace, request.name)
            return await self._remove(project, hub, projection, hub_namespace, request.name)
        if hub_instance.metadata.deleting:
            return DONE  # what it last said stays on show until it is gone
        return await self._show(project, request, hub_instance, projection)

    async def _show(
        self, project: Cluster, request: Request, hub_instance: Object, projection: Object | None
    ) -> Result:
        owner_name = deployment_name(hub_instance)
        if not owner_name:
            return DONE  # the quarantine has told so
        owner = project.cache(compute.WORKLOAD_DEPLOYMENTS).get(owner_name, request.namespace)
        if owner is None:
            # It may be about to come; if it has gone, its hub copy and this Instance follow.
            is_hopeless = self._quarantine.record_missing_owner(hub_instance)
            return after(HOPELESS_RETRY_SECONDS if is_hopeless else OWNER_RETRY_SECONDS)
        self._quarantine.release(hub_instance.namespace, hub_instance.name)
        if projection is not None and copy.is_of_predecessor(projection, hub_instance):
            await patch.delete_if_present(project.client, compute.INSTANCES, projection)
            if projection.metadata.finalizers:
                raise Waiting("the projection of a predecessor is going", OWNER_RETRY_SECONDS)
            projection = None
        if projection is not None and projection.metadata.deleting:
            return DONE  # its end wakes us, and then it is made anew
        shown = await copy.ensure_projection(
            project.client, self._copies, hub_instance, owner, projection
        )
        await self._signals.record_projection(project, projection, shown)
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
        try:
            await hub.client.get(compute.INSTANCES, name, hub_namespace)
        except errors.NotFound:
            # Only the hub's own "no" counts: a cache may lag or be empty.
            await patch.delete_if_present(project.client, compute.INSTANCES, projection)
            self._copies.forget(projection.metadata.uid)
            return DONE
        raise Waiting("the cache has not seen this hub Instance yet", 1.0)


def _hub_namespace(project: Cluster, namespace: str) -> str | None:
    found = project.cache(core.NAMESPACES).get(namespace)
    return names.federation_namespace(found.metadata.uid) if found else None
