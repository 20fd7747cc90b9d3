"""Projects, from creation to the release of their finalizer."""

from __future__ import annotations

from collections.abc import Callable

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.quota.v1alpha1 import NAMESPACE_MILO_SYSTEM
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions
from datum_compute.runtime.writes.create import create_if_absent
from datum_compute.standins.milo_projects.purge import purge

PLANE_NAMESPACES = ("default", NAMESPACE_MILO_SYSTEM)

PURGE_SECONDS = 5.0
"""How often a purge is repeated while objects are left; as the real system."""


def project_controllers(
    root: Fleet, project_client_for: Callable[[str], Client], env: Environment
) -> list[Controller]:
    reconciler = _Projects(root, project_client_for, env)
    watches = [Watch.each(root, resourcemanager.PROJECTS)]
    return [Controller("project", root, reconciler.reconcile, watches=watches)]


def _namespaces(project: Object) -> tuple[str, ...]:
    """What a project's plane has: the quota of the Organization that owns it is there too."""
    owner = project.view(resourcemanager.Project).spec.owner_ref
    if owner.kind != resourcemanager.ORGANIZATIONS.kind or not owner.name:
        return PLANE_NAMESPACES
    return (*PLANE_NAMESPACES, resourcemanager.organization_namespace(owner.name))


class _Projects:
    def __init__(
        self, root: Fleet, project_client_for: Callable[[str], Client], env: Environment
    ) -> None:
        self._root = root
        self._project_client_for = project_client_for
        self._env = env
        self._clients: dict[str, Client] = {}

    async def reconcile(self, request: Request) -> Result:
        root = self._root.get(request.cluster)
        if root is None:
            return DONE
        project = root.cache(resourcemanager.PROJECTS).get(request.name)
        if project is None:
            self._clients.pop(request.name, None)
            return DONE
        if project.metadata.deleting:
            return await self._remove(root, project)
        project = await patch.ensure_metadata(
            root.client,
            resourcemanager.PROJECTS,
            project,
            finalizer=resourcemanager.FINALIZER_PROJECT,
        )
        project_client = self._client_for(project.name)
        for name in _namespaces(project):
            if await find_live(project_client, NAMESPACES, name) is None:
                await create_if_absent(project_client, NAMESPACES, {"metadata": {"name": name}})
        ready = resourcemanager.REASON_READY
        await self._report(root, project, resourcemanager.CONDITION_READY, TRUE, ready, "Ready")
        return DONE

    def _client_for(self, project: str) -> Client:
        if project not in self._clients:
            self._clients[project] = self._project_client_for(project)
        return self._clients[project]

    async def _remove(self, root: Cluster, project: Object) -> Result:
        if resourcemanager.FINALIZER_PROJECT not in project.metadata.finalizers:
            return DONE
        cleanup = resourcemanager.CONDITION_RESOURCE_CLEANUP
        reported = views((project,), resourcemanager.Project)
        if reported and conditions.find(reported[0].status.conditions, cleanup) is None:
            started = resourcemanager.REASON_CLEANUP_STARTED
            message = "Everything in the project is being deleted"
            project = await self._report(root, project, cleanup, FALSE, started, message)
        left = await purge(self._client_for(project.name))
        if left:
            waiting = resourcemanager.REASON_CLEANUP_AWAITING_COMPLETION
            message = ", ".join(f"{count} {kind}" for kind, count in left.items())
            await self._report(root, project, cleanup, FALSE, waiting, f"still there: {message}")
            return after(PURGE_SECONDS)
        complete = resourcemanager.REASON_CLEANUP_COMPLETE
        project = await self._report(root, project, cleanup, TRUE, complete, "Nothing is left")
        await patch.release_finalizer(
            root.client,
            resourcemanager.PROJECTS,
            project,
            resourcemanager.FINALIZER_PROJECT,
        )
        return DONE

    async def _report(
        self, root: Cluster, project: Object, kind: str, status: str, reason: str, message: str
    ) -> Object:
        change = ConditionChange(kind, status, reason, message)
        return await write_conditions(
            root.client, resourcemanager.PROJECTS, project, change, now=self._env.now()
        )
