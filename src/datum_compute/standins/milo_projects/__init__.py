"""The stand-in for Milo's projects: a Project becomes a plane with its namespaces, and ready.

The API server serves a project's plane while the Project exists. This controller holds the
Project with its finalizer, makes sure of the plane's namespaces, and says Ready, upon which
fleets engage it. A Project that is being deleted is emptied first (:mod:`.purge`).
"""

from __future__ import annotations

from collections.abc import Callable

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.planes import PROJECT
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch
from datum_compute.standins.milo_projects.purge import purge

PURGE_SECONDS = 5.0
"""As the real system: what is left is looked for, and asked to go, this often."""


def project_controllers(
    root: Fleet, project_client_for: Callable[[str], Client], env: Environment
) -> list[Controller]:
    reconciler = _Projects(root, project_client_for, env)
    watches = [Watch(root, resourcemanager.PROJECTS, itself)]
    return [Controller("project", root, reconciler.reconcile, watches=watches)]


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
        for namespace in PROJECT.namespaces:
            await _ensure_namespace(project_client, namespace)
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
        told = project.view(resourcemanager.Project).status.conditions
        if conditions.find(told, cleanup) is None:
            started = resourcemanager.REASON_CLEANUP_STARTED
            message = "Everything in the project is asked to go"
            project = await self._report(root, project, cleanup, FALSE, started, message)
        left = await purge(self._client_for(project.name))
        if left:
            waiting = resourcemanager.REASON_CLEANUP_AWAITING_COMPLETION
            message = ", ".join(f"{count} {kind}" for kind, count in left.items())
            await self._report(root, project, cleanup, FALSE, waiting, f"left: {message}")
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
        wanted = conditions.with_condition(
            project.view(resourcemanager.Project).status.conditions,
            kind,
            status,
            reason,
            message,
            now=self._env.now(),
            observed_generation=project.metadata.generation,
        )
        body = {**patch.values(project.status), "conditions": conditions.to_wire(wanted)}
        return await patch.write_status(root.client, resourcemanager.PROJECTS, project, body)


async def _ensure_namespace(project_client: Client, name: str) -> None:
    try:
        await project_client.get(NAMESPACES, name)
    except errors.NotFound:
        body = {
            "apiVersion": NAMESPACES.api_version,
            "kind": NAMESPACES.kind,
            "metadata": {"name": name},
        }
        try:
            await project_client.create(NAMESPACES, body)
        except errors.AlreadyExists:
            pass


__all__ = ["project_controllers"]
