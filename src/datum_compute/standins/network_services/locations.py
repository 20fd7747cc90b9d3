"""Which places a project may use: the platform's locations, bound in every project.

The platform's locations are those of its cells. A project gets each of them, with a
LocationBinding of the same name that says whether it is available: the location is there,
and nobody has said that it is not ready. A binding that somebody deletes is not made again
while the project still has the Location: that project is then not to use the place. A
condition with a reason that is not ours was set by somebody else, and stays. A project that
is on its way out gets nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.patch import Values

REASON_AVAILABLE = "Available"
REASON_NOT_READY = "LocationNotReady"
REASON_GONE = "LocationGone"
OURS = (REASON_AVAILABLE, REASON_NOT_READY, REASON_GONE)

HOME = "default"
"""A namespace every project has: when it is first seen the project gets all locations."""


@dataclass(frozen=True, slots=True)
class Availability:
    status: str
    reason: str
    message: str


def location_binding_controller(
    projects: Fleet, cells: Fleet, root: Fleet, env: Environment
) -> Controller:
    reconciler = _LocationBindings(projects, cells, root, env)
    return Controller(
        "network-location-binding",
        projects,
        reconciler.reconcile,
        watches=[
            Watch(projects, networking.LOCATION_BINDINGS, itself),
            Watch(projects, networking.LOCATIONS, itself),
            Watch(
                projects,
                NAMESPACES,
                reconciler.all_locations,
                predicate=lambda old, new: old is None and new is not None and new.name == HOME,
            ),
            Watch(cells, networking.LOCATIONS, reconciler.in_all_projects, required=False),
        ],
        reads=[Read(root, resourcemanager.PROJECTS)],
    )


def decide_availability(location: Object) -> Availability:
    ready = conditions.find(
        location.view(networking.Location).status.conditions, networking.CONDITION_READY
    )
    if ready is not None and ready.status == FALSE:
        return Availability(FALSE, REASON_NOT_READY, ready.message or "The location is not ready")
    return Availability(TRUE, REASON_AVAILABLE, "The location is ready")


class _LocationBindings:
    def __init__(self, projects: Fleet, cells: Fleet, root: Fleet, env: Environment) -> None:
        self._projects = projects
        self._cells = cells
        self._root = root
        self._env = env

    def all_locations(self, project: str, _: Object) -> Iterable[Request]:
        names = {
            location.name
            for cell in self._cells.clusters()
            for location in cell.cache(networking.LOCATIONS).list()
        }
        for name in sorted(names):
            yield Request(project, "", name)

    def in_all_projects(self, _: str, location: Object) -> Iterable[Request]:
        for project in self._projects.clusters():
            yield Request(project.name, "", location.name)

    async def reconcile(self, request: Request) -> Result:
        project = self._projects.get(request.cluster)
        if project is None or self._is_leaving(request.cluster):
            return DONE
        binding = project.cache(networking.LOCATION_BINDINGS).get(request.name)
        if binding is not None and binding.metadata.deleting:
            return DONE
        source = self._source(request.name)
        if source is not None:
            await self._offer(project, source, binding)
        elif binding is not None and await self._is_gone(request.name):
            gone = Availability(FALSE, REASON_GONE, "No cell has this location")
            await self._report(project, binding, gone)
        return DONE

    def _is_leaving(self, name: str) -> bool:
        """Whether somebody empties the project: what is made there would keep it alive."""
        found = [root.cache(resourcemanager.PROJECTS).get(name) for root in self._root.clusters()]
        return any(project is None or project.metadata.deleting for project in found)

    def _source(self, name: str) -> Object | None:
        for cell in self._cells.clusters():
            location = cell.cache(networking.LOCATIONS).get(name)
            if location is not None and not location.metadata.deleting:
                return location
        return None

    async def _is_gone(self, name: str) -> bool:
        """Only the cells themselves can say that a location is gone, and all of them must."""
        for cell in self._cells.clusters():
            if not cell.cache(networking.LOCATIONS).synced:
                return False
            try:
                await cell.client.get(networking.LOCATIONS, name)
            except errors.NotFound:
                continue
            return False
        return bool(self._cells.clusters())

    async def _offer(self, project: Cluster, source: Object, binding: Object | None) -> None:
        own = project.cache(networking.LOCATIONS).get(source.name)
        if binding is None:
            if own is not None:
                return  # somebody took the binding away, or is about to make it
            binding = await _create(project, networking.LOCATION_BINDINGS, _binding(source))
        if own is None:
            body = _body(networking.LOCATIONS, source.name, patch.values(source.spec))
            await _create(project, networking.LOCATIONS, body)
        if binding is None:
            return  # it came from elsewhere just now; its event brings us back
        spec = patch.values(binding.spec)
        mirrored = {**spec, **_mirrored(source)}
        binding = await patch.ensure_metadata(
            project.client,
            networking.LOCATION_BINDINGS,
            binding,
            spec=patch.difference(spec, mirrored) or None,
        )
        await self._report(project, binding, decide_availability(source))

    async def _report(self, project: Cluster, binding: Object, wanted: Availability) -> None:
        kind = networking.CONDITION_LOCATION_AVAILABLE
        current = binding.view(networking.LocationBinding).status.conditions
        known = conditions.find(current, kind)
        if known is not None and (
            known.reason not in OURS
            or (known.status, known.reason) == (wanted.status, wanted.reason)
        ):
            return
        told = conditions.with_condition(
            current,
            kind,
            wanted.status,
            wanted.reason,
            wanted.message,
            now=self._env.now(),
            observed_generation=binding.metadata.generation,
        )
        status = {**patch.values(binding.status), "conditions": conditions.to_wire(told)}
        await patch.write_status(project.client, networking.LOCATION_BINDINGS, binding, status)


def _binding(source: Object) -> Values:
    view = source.view(networking.Location)
    spec = {
        "locationRef": {"name": source.name},
        "displayName": view.city_code or source.name,
        **_mirrored(source),
    }
    return _body(networking.LOCATION_BINDINGS, source.name, spec)


def _mirrored(source: Object) -> Values:
    """What a binding repeats of its location."""
    spec = patch.values(source.spec)
    return {key: spec[key] for key in ("locationClassName", "topology") if key in spec}


def _body(resource: Resource, name: str, spec: Values) -> Values:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


async def _create(project: Cluster, resource: Resource, body: Values) -> Object | None:
    """The object, or None where somebody was faster."""
    try:
        return await project.client.create(resource, body)
    except errors.AlreadyExists:
        return None
