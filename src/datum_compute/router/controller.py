"""The routes of all Workloads, and their URLs in the API.

It owns the annotation ``compute.datumapis.com/url`` on the Workloads of a project, and on their
deployments for one city each, where no other platform has written it. Only namespace ``default``
is served: a name of another namespace would not say which project's Workload it means.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.decisions.routing import (
    HttpRoute,
    RequestedHost,
    decide_route,
    decide_url,
    http_port,
    url_of,
)
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result
from datum_compute.runtime.watches.mapping import controller_owner
from datum_compute.runtime.watches.predicates import changed, metadata_or_spec_changed
from datum_compute.runtime.writes import patch

NAMESPACE = "default"
BY_WORKLOAD = "router/workload"


class RouteTable:
    """The route of each Workload that serves HTTP, as the last reconcile left it."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], HttpRoute] = {}
        self.projects: Fleet | None = None
        """Set by the controller that fills the table."""

    def find(self, host: RequestedHost) -> HttpRoute | None:
        if self.projects is None or self.projects.get(host.project) is None:
            return None
        route = self._routes.get((host.project, host.workload))
        return route.within(host.city) if route is not None and host.city else route

    def set(self, project: str, workload: str, route: HttpRoute | None) -> None:
        if route is None:
            self._routes.pop((project, workload), None)
        else:
            self._routes[project, workload] = route

    def names(self) -> list[str]:
        """``workload.project`` of each."""
        return sorted(f"{workload}.{project}" for project, workload in self._routes)

    def urls(self, port: int) -> list[str]:
        return [url_of(project, workload, port) for project, workload in sorted(self._routes)]


def router_controller(projects: Fleet, table: RouteTable, port: int) -> Controller:
    """``port`` is where the router listens."""
    table.projects = projects

    def from_instance(project: str, instance: Object) -> Iterable[Request]:
        # Most Workloads serve no HTTP. One whose port comes later has an event of its own.
        cluster, name = projects.get(project), _workload_of_instance(instance)
        workload = (
            cluster.cache(compute.WORKLOADS).get(name, instance.namespace) if cluster else None
        )
        if workload is None or http_port(workload.metadata.annotations) is None:
            return []
        return [Request(project, instance.namespace, name)]

    return Controller(
        "router",
        projects,
        _Routes(projects, table, port).reconcile,
        watches=[
            Watch.each(projects, compute.WORKLOADS, predicate=metadata_or_spec_changed),
            Watch(
                projects,
                compute.WORKLOAD_DEPLOYMENTS,
                controller_owner(compute.WORKLOADS.kind),
                predicate=changed(
                    lambda each: each.metadata.annotations.get(compute.ANNOTATION_URL)
                ),
                indexes={BY_WORKLOAD: lambda each: [f"{each.namespace}/{_workload_of(each)}"]},
            ),
            Watch(
                projects,
                compute.INSTANCES,
                from_instance,
                indexes={
                    BY_WORKLOAD: lambda each: [f"{each.namespace}/{_workload_of_instance(each)}"]
                },
            ),
        ],
    )


class _Routes:
    def __init__(self, projects: Fleet, table: RouteTable, port: int) -> None:
        self._projects = projects
        self._table = table
        self._port = port

    async def reconcile(self, request: Request) -> Result:
        project = self._projects.get(request.cluster)
        if project is None or request.namespace != NAMESPACE:
            return DONE
        found = project.cache(compute.WORKLOADS).get(request.name, request.namespace)
        route = _route(project, found)
        # Before the writes: a request does not wait for them.
        self._table.set(request.cluster, request.name, route)
        if found is not None and not found.metadata.deleting:
            await self._publish(project, found, serves=route is not None)
        return DONE

    async def _publish(self, project: Cluster, workload: Object, *, serves: bool) -> None:
        url = url_of(project.name, workload.name, self._port)
        await _write(project, compute.WORKLOADS, workload, url, serves=serves)
        key = f"{workload.namespace}/{workload.name}"
        deployments = project.cache(compute.WORKLOAD_DEPLOYMENTS).by_index(BY_WORKLOAD, key)
        for deployment in deployments:
            city = _city(deployment)
            if city and not deployment.metadata.deleting:
                url = url_of(project.name, workload.name, self._port, city)
                await _write(project, compute.WORKLOAD_DEPLOYMENTS, deployment, url, serves=serves)


async def _write(
    project: Cluster, resource: Resource, obj: Object, url: str, *, serves: bool
) -> None:
    wanted = decide_url(_url(obj), url, serves=serves)
    await patch.ensure_metadata(
        project.client, resource, obj, annotations={compute.ANNOTATION_URL: wanted}
    )


def _route(project: Cluster, workload: Object | None) -> HttpRoute | None:
    if workload is None or http_port(workload.metadata.annotations) is None:
        return None
    for view in views((workload,), compute.Workload):
        key = f"{workload.namespace}/{workload.name}"
        found = project.cache(compute.INSTANCES).by_index(BY_WORKLOAD, key)
        uid = workload.metadata.uid
        own = [
            each for each in found if each.metadata.labels.get(compute.LABEL_WORKLOAD_UID) == uid
        ]
        return decide_route(view, views(own, compute.Instance))
    return None


def _url(obj: Object) -> str | None:
    return obj.metadata.annotations.get(compute.ANNOTATION_URL)


def _workload_of_instance(instance: Object) -> str:
    return instance.metadata.labels.get(compute.LABEL_WORKLOAD_NAME, "")


def _workload_of(deployment: Object) -> str:
    owner = deployment.metadata.controller()
    return owner.name if owner is not None else ""


def _city(deployment: Object) -> str:
    for view in views((deployment,), compute.WorkloadDeployment):
        return view.spec.city_code
    return ""
