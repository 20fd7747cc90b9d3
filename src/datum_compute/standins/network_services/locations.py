"""Which locations a project may use: the platform's locations, bound in every project.

The platform's locations are those of its cells. A project gets each of them, with a
LocationBinding of the same name that reports whether it is available: the location exists and
is not reported unready. A deleted binding is not created again while the project still has the
Location: that is how an operator withdraws a location from a project. A condition with a
reason that is not ours belongs to another writer and stays. A project that is being deleted
gets nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api import conditions
from datum_compute.api.conditions import FALSE, TRUE
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result
from datum_compute.runtime.watches.predicates import created
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions
from datum_compute.runtime.writes.create import create_if_absent
from datum_compute.runtime.writes.patch import Values

REASON_AVAILABLE = "Available"
REASON_NOT_READY = "LocationNotReady"
REASON_GONE = "LocationGone"
OURS = (REASON_AVAILABLE, REASON_NOT_READY, REASON_GONE)

HOME = "default"
"""A namespace every project has: when it is first seen the project gets all locations."""


def location_binding_controller(
    projects: Fleet, cells: Fleet, root: Fleet, env: Environment
) -> Controller:
    reconciler = _LocationBindings(projects, cells, root, env)
    return Controller(
        "network-location-binding",
        projects,
        reconciler.reconcile,
        watches=[
            Watch.each(projects, networking.LOCATION_BINDINGS),
            Watch.each(projects, networking.LOCATIONS),
            Watch(projects, NAMESPACES, reconciler.all_locations, predicate=created),
            Watch(cells, networking.LOCATIONS, reconciler.in_all_projects, required=False),
        ],
        reads=[Read(root, resourcemanager.PROJECTS)],
    )


def decide_availability(location: Object) -> ConditionChange:
    ready = conditions.find(
        location.view(networking.Location).status.conditions, networking.CONDITION_READY
    )
    if ready is not None and ready.status == FALSE:
        return _available(FALSE, REASON_NOT_READY, ready.message or "The location is not ready")
    return _available(TRUE, REASON_AVAILABLE, "The location is ready")


class _LocationBindings:
    def __init__(self, projects: Fleet, cells: Fleet, root: Fleet, env: Environment) -> None:
        self._projects = projects
        self._cells = cells
        self._root = root
        self._env = env

    def all_locations(self, project: str, namespace: Object) -> Iterable[Request]:
        if namespace.name != HOME:
            return
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
        if project is None or self._is_deleting(request.cluster):
            return DONE
        binding = project.cache(networking.LOCATION_BINDINGS).get(request.name)
        if binding is not None and binding.metadata.deleting:
            return DONE
        source = self._source(request.name)
        if source is not None:
            await self._offer(project, source, binding)
        elif binding is not None and await self._is_gone(request.name):
            gone = _available(FALSE, REASON_GONE, "No cell has this location")
            await self._report(project, binding, gone)
        return DONE

    def _is_deleting(self, name: str) -> bool:
        """Whether the project is being purged: a new object would keep it alive."""
        found = [root.cache(resourcemanager.PROJECTS).get(name) for root in self._root.clusters()]
        return any(project is None or project.metadata.deleting for project in found)

    def _source(self, name: str) -> Object | None:
        for cell in self._cells.clusters():
            location = cell.cache(networking.LOCATIONS).get(name)
            if location is not None and not location.metadata.deleting:
                return location
        return None

    async def _is_gone(self, name: str) -> bool:
        """Only a live read of every cell proves that a location is gone."""
        for cell in self._cells.clusters():
            if not cell.cache(networking.LOCATIONS).synced:
                return False
            if await find_live(cell.client, networking.LOCATIONS, name) is not None:
                return False
        return bool(self._cells.clusters())

    async def _offer(self, project: Cluster, source: Object, binding: Object | None) -> None:
        own = project.cache(networking.LOCATIONS).get(source.name)
        if binding is None:
            if own is not None:
                return  # the binding was deleted on purpose, or is about to be created
            binding = await create_if_absent(
                project.client, networking.LOCATION_BINDINGS, _binding(source)
            )
        if own is None:
            body = {"metadata": {"name": source.name}, "spec": patch.values(source.spec)}
            await create_if_absent(project.client, networking.LOCATIONS, body)
        if binding is None:
            return  # it exists and is not in the cache; its event causes the next reconcile
        spec = patch.values(binding.spec)
        mirrored = {**spec, **_mirrored(source)}
        binding = await patch.ensure_metadata(
            project.client,
            networking.LOCATION_BINDINGS,
            binding,
            spec=patch.difference(spec, mirrored) or None,
        )
        await self._report(project, binding, decide_availability(source))

    async def _report(self, project: Cluster, binding: Object, wanted: ConditionChange) -> None:
        current = binding.view(networking.LocationBinding).status.conditions
        known = conditions.find(current, wanted.type)
        if known is not None and (
            known.reason not in OURS
            or (known.status, known.reason) == (wanted.status, wanted.reason)
        ):
            return
        await write_conditions(
            project.client, networking.LOCATION_BINDINGS, binding, wanted, now=self._env.now()
        )


def _available(status: str, reason: str, message: str) -> ConditionChange:
    return ConditionChange(networking.CONDITION_LOCATION_AVAILABLE, status, reason, message)


def _binding(source: Object) -> Values:
    view = source.view(networking.Location)
    spec = {
        "locationRef": {"name": source.name},
        "displayName": view.city_code or source.name,
        **_mirrored(source),
    }
    return {"metadata": {"name": source.name}, "spec": spec}


def _mirrored(source: Object) -> Values:
    """The fields a binding copies from its location."""
    spec = patch.values(source.spec)
    return {key: spec[key] for key in ("locationClassName", "topology") if key in spec}
