"""One WorkloadDeployment of a project, and its copy on the hub."""

from __future__ import annotations

from datum_compute.api import core
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.controllers.management.federation import bindings, hub_objects, removal, status
from datum_compute.controllers.management.federation.interpreter import InterpreterWatch
from datum_compute.controllers.management.federation.policies import ensure_policy_removed
from datum_compute.controllers.management.federation.signals import FederationSignals
from datum_compute.controllers.planes import hub_of
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.spec_copies import SpecCopies

GONE_RETRY_SECONDS = 5.0
"""The floor while the hub clears up behind a deleted copy; its events come sooner."""


class Federator:
    def __init__(
        self, projects: Fleet, hub: Fleet, env: Environment, signals: FederationSignals
    ) -> None:
        self._signals = signals
        self._projects = projects
        self._hub = hub
        self._env = env
        self._copies = SpecCopies()
        self._interpreter = InterpreterWatch(signals.registry, hub)

    async def reconcile(self, request: Request) -> Result:
        if not request.cluster:
            return DONE
        project = self._projects.get(request.cluster)
        if project is None:
            return DONE
        deployments = project.cache(compute.WORKLOAD_DEPLOYMENTS)
        deployment = deployments.get(request.name, request.namespace)
        if deployment is None:
            await self._clear_up(project, request)
            return DONE
        hub = hub_of(self._hub)
        self._interpreter.check(hub)
        if deployment.metadata.deleting:
            return await self._end(project, hub, deployment)
        return await self._federate(project, hub, deployment)

    async def _federate(self, project: Cluster, hub: Cluster, deployment: Object) -> Result:
        hub_namespace = await _hub_namespace(project, deployment)
        deployment = await patch.ensure_metadata(
            project.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            finalizer=compute.FINALIZER_FEDERATOR,
            annotations={compute.ANNOTATION_FEDERATION_NAMESPACE: hub_namespace},
        )
        self._env.fault("federation.before-hub-write")
        cached = hub.cache(compute.WORKLOAD_DEPLOYMENTS).get(deployment.name, hub_namespace)
        hub_deployment = await self._ensure_copy(project, hub, deployment, hub_namespace, cached)
        route = status.route_of(hub, bindings.binding_of(hub, hub_namespace, deployment.name))
        await self._mirror(project, deployment, hub_deployment, route)
        return DONE

    async def _ensure_copy(
        self,
        project: Cluster,
        hub: Cluster,
        deployment: Object,
        hub_namespace: str,
        cached: Object | None,
    ) -> Object:
        """The copy on the hub, with its namespace and the policy that routes it."""
        await hub_objects.ensure_namespace(hub, hub_namespace, project.name, deployment.namespace)
        await hub_objects.ensure_policy(hub, hub_namespace, hub_objects.city_of(deployment))
        hub_deployment = await hub_objects.ensure_deployment(
            hub.client, self._copies, deployment, hub_namespace, cached
        )
        self._signals.federated(cached, hub_deployment)
        return hub_deployment

    async def _mirror(
        self,
        project: Cluster,
        deployment: Object,
        hub_deployment: Object | None,
        route: status.Route,
    ) -> None:
        wanted = status.build_status(deployment, hub_deployment, route, self._env.now())
        if wanted is not None:
            written = await patch.write_status(
                project.client, compute.WORKLOAD_DEPLOYMENTS, deployment, wanted
            )
            await self._signals.record_events(project, deployment, written)

    async def _end(self, project: Cluster, hub: Cluster, deployment: Object) -> Result:
        if compute.FINALIZER_FEDERATOR not in deployment.metadata.finalizers:
            return DONE
        hub_namespace = await _hub_namespace(project, deployment)
        cached = hub.cache(compute.WORKLOAD_DEPLOYMENTS).get(deployment.name, hub_namespace)
        binding = await bindings.find_binding(hub, hub_namespace, deployment.name)
        route = status.route_of(hub, binding)
        left_behind = binding is not None and bindings.is_orphaned(binding)
        if cached is not None and not cached.metadata.deleting:
            await self._mirror(project, deployment, cached, route)
            if left_behind:
                return after(GONE_RETRY_SECONDS)  # it would be again
            now = self._env.now()
            if not await removal.ensure_drained(hub.client, deployment, cached, route, now):
                return after(max(1.0, removal.seconds_left(deployment, now)))
            await patch.delete_if_present(hub.client, compute.WORKLOAD_DEPLOYMENTS, cached)
            self._copies.forget(cached.metadata.uid)
        elif cached is None and left_behind:
            # Nobody collects it. Its template made again owns it, and goes as any other does.
            await self._ensure_copy(project, hub, deployment, hub_namespace, None)
            return after(GONE_RETRY_SECONDS)
        if not await removal.is_gone(hub, hub_namespace, deployment):
            return after(GONE_RETRY_SECONDS)
        await ensure_policy_removed(hub.client, hub_namespace, hub_objects.city_of(deployment))
        self._env.fault("federation.before-release")
        await patch.release_finalizer(
            project.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            compute.FINALIZER_FEDERATOR,
        )
        return DONE

    async def _clear_up(self, project: Cluster, request: Request) -> None:
        """Remove a copy that arrived on the hub when its deployment had gone. One that does
        not carry our stamp is somebody else's."""
        namespace = project.cache(core.NAMESPACES).get(request.namespace)
        if namespace is None:
            return
        hub, hub_namespace = hub_of(self._hub), names.federation_namespace(namespace.metadata.uid)
        copy = hub.cache(compute.WORKLOAD_DEPLOYMENTS).get(request.name, hub_namespace)
        if copy is None or copy.metadata.deleting:
            return
        if compute.ANNOTATION_SOURCE_GENERATION not in copy.metadata.annotations:
            return
        try:
            await project.client.get(compute.WORKLOAD_DEPLOYMENTS, request.name, request.namespace)
        except errors.NotFound:
            # Only the project's own "no" counts: a cache may lag.
            await patch.delete_if_present(hub.client, compute.WORKLOAD_DEPLOYMENTS, copy)
            await ensure_policy_removed(hub.client, hub_namespace, hub_objects.city_of(copy))
            self._copies.forget(copy.metadata.uid)
            return
        raise Waiting("the cache has not seen this deployment yet", 1.0)


async def _hub_namespace(project: Cluster, deployment: Object) -> str:
    """As recorded on the deployment; before that, from the uid of its namespace."""
    recorded = deployment.metadata.annotations.get(compute.ANNOTATION_FEDERATION_NAMESPACE)
    if recorded:
        return recorded
    namespace = project.cache(core.NAMESPACES).get(deployment.namespace)
    if namespace is None:
        try:
            namespace = await project.client.get(core.NAMESPACES, deployment.namespace)
        except errors.NotFound as error:
            raise NamespaceMissing(
                f"{project.name}/{deployment.namespace}/{deployment.name} lies in a namespace"
                " the project does not have, so its place on the hub cannot be told"
            ) from error
    return names.federation_namespace(namespace.metadata.uid)


class NamespaceMissing(Exception):
    """A deployment without a namespace: retried, and never taken for "nothing to clean up"."""
