"""The planes of one server.

A plane's type gives it its first definitions and namespaces; definitions written through the
API change only that plane. Project planes follow the Project objects of the root plane: each
is created and dropped in the transaction that creates and removes its Project.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from datum_compute.api import planes
from datum_compute.api.planes import PROJECT, ROOT, PlaneType
from datum_compute.api.resourcemanager.v1alpha1 import PROJECTS
from datum_compute.apiserver.codec import decode_json, encode_json, json_equal
from datum_compute.apiserver.kinds import builtin_rules, registry
from datum_compute.apiserver.kinds.builtin_kinds import builtin_kinds
from datum_compute.apiserver.kinds.registry import KindRegistry
from datum_compute.apiserver.kinds.served_kind import ServedKind
from datum_compute.apiserver.objects import object_meta
from datum_compute.apiserver.objects.lifecycle import Writer
from datum_compute.apiserver.storage.protocol import (
    PlaneStore,
    Store,
    StoredObject,
    StoreEvent,
    Table,
)
from datum_compute.env import Environment
from datum_compute.log import get_logger

CrdsFor = Callable[[PlaneType], Sequence[Mapping[str, Any]]]
"""The definitions that planes of a type serve."""

_PROJECTS = PROJECTS.group_resource

_log = get_logger(__name__)


class Plane:
    """One API server as a client sees it."""

    def __init__(
        self,
        env: Environment,
        plane_type: PlaneType,
        store: PlaneStore,
        builtins: list[ServedKind],
        own_definitions: Collection[str] = (),
    ) -> None:
        self.own_definitions = frozenset(own_definitions)
        """Names of those that the type of plane gives it; only ``system:masters`` change them."""
        self.name = store.name
        self.type = plane_type
        self.prefix = planes.plane_prefix(store.name)
        self.store = store
        self.registry = KindRegistry(builtins)
        self.writer = Writer(env, store)
        self.ensured: dict[str, StoredObject | None] = {}
        """The versions of definitions that were found to be as the type of plane has them."""
        self.documents: dict[Any, Any] = {}
        """Cached discovery and OpenAPI documents, with the registry's generation."""

    def namespace_state(self, name: str) -> str:
        """``Active``, ``Terminating``, or empty when there is no such namespace."""
        stored = self.store.get((builtin_rules.NAMESPACES, "", name))
        if stored is None:
            return ""
        return "Terminating" if stored.deleting else "Active"


class PlaneRegistry:
    """All planes on one store."""

    def __init__(
        self,
        env: Environment,
        store: Store,
        crds_for: CrdsFor,
        extra_kinds: Sequence[ServedKind] = (),
    ) -> None:
        self._env = env
        self._store = store
        self._crds_for = crds_for
        self._definitions: dict[PlaneType, dict[str, bytes]] = {}
        self._builtins = [*builtin_kinds(), *extra_kinds]
        self._planes: dict[str, Plane] = {}
        for stored in store.planes.values():
            plane_type = planes.plane_type(stored.name)
            if plane_type is None:
                continue  # of another release: kept in the store, not served
            plane = self._add(plane_type, stored)
            for row in stored.table(builtin_rules.CRDS).in_order(None):
                raw = stored.value(row)
                if faults := registry.stored_faults(raw):
                    why = "; ".join(map(str, faults))
                    _log.error("definition not served", plane=stored.name, name=row.name, why=why)
                else:
                    plane.registry.define(raw)
        store.subscribe(self._on_change)

    def get(self, name: str) -> Plane | None:
        return self._planes.get(name)

    def all(self) -> list[Plane]:
        return list(self._planes.values())

    def ensure(self, name: str) -> Plane:
        """Create the plane, or bring it up to its type's definitions. Not durable yet. Raises
        ValueError for a name that no type of plane has."""
        plane_type = planes.plane_type(name)
        if plane_type is None:
            raise ValueError(f"no plane is named {name!r}")
        plane = self._planes.get(name)
        if plane is None:
            plane = self._add(plane_type, self._store.open_plane(name))
        for namespace in plane_type.namespaces:
            self._ensure_namespace(plane, namespace)
        for definition, body in self._definitions_of(plane_type).items():
            self._ensure_definition(plane, definition, body)
        return plane

    def refresh(self) -> None:
        """After opening a store: bring planes up to their type, and create and drop those of
        projects."""
        for plane in self.all():
            self.ensure(plane.name)
        root = self._planes.get(ROOT.plane())
        if root is None:
            return
        projects = root.store.table(_PROJECTS).in_order(None)
        expected = {PROJECT.plane(project.name) for project in projects}
        for name in sorted(expected - self._planes.keys()):
            self.ensure(name)
        for plane in self.all():
            if plane.type is PROJECT and plane.name not in expected:
                self._drop(plane.name)

    def _add(self, plane_type: PlaneType, stored: PlaneStore) -> Plane:
        own = self._definitions_of(plane_type)
        plane = Plane(self._env, plane_type, stored, self._builtins, own)
        self._planes[stored.name] = plane
        return plane

    def _drop(self, name: str) -> None:
        del self._planes[name]
        self._store.drop_plane(name)

    def _ensure_namespace(self, plane: Plane, name: str) -> None:
        if plane.namespace_state(name):
            return
        kind = plane.registry.builtin(builtin_rules.NAMESPACES)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        plane.writer.create(kind, body)

    def _definitions_of(self, plane_type: PlaneType) -> dict[str, bytes]:
        """By name, as JSON: those given are the caller's, what is stored may be changed."""
        found = self._definitions.get(plane_type)
        if found is None:
            given = self._crds_for(plane_type)
            found = {each["metadata"]["name"]: encode_json(each) for each in given}
            self._definitions[plane_type] = found
        return found

    def _ensure_definition(self, plane: Plane, name: str, body: bytes) -> None:
        kind = plane.registry.builtin(builtin_rules.CRDS)
        before = plane.store.table(builtin_rules.CRDS).get("", name)
        is_served = plane.registry.serves(name)
        if before is not None and is_served and plane.ensured.get(name) is before:
            return
        wanted = decode_json(body)
        if before is None:
            wanted.pop("status", None)
            plane.ensured[name] = plane.writer.create(kind, wanted).stored
            return
        builtin_rules.before_write(builtin_rules.CRDS, wanted)
        held = plane.writer.read(kind, before)
        outcome = kind.schema.process(wanted)
        is_same = not outcome.errors and json_equal(wanted["spec"], held.get("spec"))
        if is_same and is_served:
            plane.ensured[name] = before
            return
        _log.info("definition put back", plane=plane.name, name=before.name)
        # Stored without comparing the two: what must not change by a request may be damaged here.
        versions = (held.get("status") or {}).get("storedVersions") or []
        held = {**held, "spec": wanted["spec"], "status": {"storedVersions": versions}}
        now = object_meta.timestamp(self._env.now())
        registry.establish(held, now, plane.writer.names_of_others(held))
        held["metadata"]["generation"] = held["metadata"].get("generation", 0) + 1
        plane.store.put(builtin_rules.CRDS, held, before, validated_by=kind.schema)

    def _on_change(self, stored: PlaneStore, table: Table, event: StoreEvent) -> None:
        if table.resource == builtin_rules.CRDS:
            plane = self._planes[stored.name]
            if event.deleted:
                plane.registry.undefine(event.after.name)
                stored.table(event.after.name).end_sinks()
            else:
                plane.registry.define(event.after.raw)
        elif table.resource == _PROJECTS and stored.name == ROOT.plane():
            name = PROJECT.plane(event.after.name)
            if event.deleted and name in self._planes:
                self._drop(name)
            elif event.before is None:
                self.ensure(name)
