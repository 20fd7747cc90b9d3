"""The planes of one server: what each serves, and which path leads to it.

A plane's *type* fixes the definitions and namespaces it is made with; afterwards it is on
its own, and definitions written through the API change only that plane. Project planes
follow the Project objects of the root plane: made in the same transaction as the object,
dropped in the same transaction as its removal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datum_compute.apiserver.builtin import rules
from datum_compute.apiserver.codec import decode_json, encode_json
from datum_compute.apiserver.objects.lifecycle import Writer
from datum_compute.apiserver.objects.patches import json_equal
from datum_compute.apiserver.request import routes
from datum_compute.apiserver.schema.kinds import ServedKind, builtin_kinds
from datum_compute.apiserver.schema.registry import KindRegistry
from datum_compute.apiserver.storage.store import PlaneStore, Store
from datum_compute.apiserver.storage.table import StoreEvent, Table
from datum_compute.env import Environment

PROJECTS = "projects.resourcemanager.miloapis.com"
PROJECT = "project"


@dataclass(frozen=True, slots=True)
class PlaneTemplate:
    """What a plane of this type has from its first moment."""

    crds: Sequence[Mapping[str, Any]] = ()
    namespaces: Sequence[str] = ("default",)


class Plane:
    """One API server as a client sees it."""

    def __init__(self, env: Environment, store: PlaneStore, builtins: list[ServedKind]) -> None:
        self.name = store.name
        self.prefix = routes.plane_prefix(store.name)
        self.store = store
        self.registry = KindRegistry(builtins)
        self.writer = Writer(env, store)
        self.documents: dict[Any, Any] = {}
        """Discovery and OpenAPI answers already made, for the registry's generation."""

    def namespace_state(self, name: str) -> str:
        """``Active``, ``Terminating``, or empty when there is no such namespace."""
        table = self.store.tables.get(rules.NAMESPACES)
        stored = table.get("", name) if table else None
        if stored is None:
            return ""
        return "Terminating" if stored.deleting else "Active"


class PlaneRegistry:
    """All planes on one store."""

    def __init__(
        self, env: Environment, store: Store, plane_types: Mapping[str, PlaneTemplate]
    ) -> None:
        self._env = env
        self._store = store
        self._types = plane_types
        self._builtins = builtin_kinds()
        self._planes: dict[str, Plane] = {}
        for stored in store.planes.values():
            plane = self._adopt(stored)
            for row in stored.table(rules.CRDS).in_order(None):
                plane.registry.define(decode_json(row.raw))
        store.listeners.append(self._on_change)

    def get(self, name: str) -> Plane | None:
        return self._planes.get(name)

    def all(self) -> list[Plane]:
        return list(self._planes.values())

    def ensure(self, name: str, plane_type: str) -> Plane:
        """Make the plane, or bring it up to its type's definitions. Not durable yet."""
        kept = self._types[plane_type]
        plane = self._planes.get(name)
        if plane is None:
            plane = self._adopt(self._store.open_plane(name, plane_type))
        for namespace in kept.namespaces:
            self._ensure_namespace(plane, namespace)
        for definition in kept.crds:
            self._ensure_definition(plane, definition)
        return plane

    def refresh(self) -> None:
        """After opening a store: planes get what their type has gained, projects their plane."""
        for plane in self.all():
            if plane.store.type in self._types:
                self.ensure(plane.name, plane.store.type)
        root = self._planes.get(routes.ROOT)
        if root is None or PROJECT not in self._types:
            return
        wanted = {f"{PROJECT}/{row.name}" for row in root.store.table(PROJECTS).in_order(None)}
        for name in sorted(wanted - self._planes.keys()):
            self.ensure(name, PROJECT)
        for plane in self.all():
            if plane.store.type == PROJECT and plane.name not in wanted:
                self._drop(plane.name)

    def _adopt(self, stored: PlaneStore) -> Plane:
        plane = Plane(self._env, stored, self._builtins)
        self._planes[stored.name] = plane
        return plane

    def _drop(self, name: str) -> None:
        del self._planes[name]
        self._store.drop_plane(name)

    def _ensure_namespace(self, plane: Plane, name: str) -> None:
        if plane.namespace_state(name):
            return
        kind = plane.registry.find("", "v1", "namespaces")
        assert kind is not None, "every plane serves namespaces"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        plane.writer.create(kind, body)

    def _ensure_definition(self, plane: Plane, definition: Mapping[str, Any]) -> None:
        kind = plane.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert kind is not None, "every plane serves definitions"
        # Through JSON: what is given stays the giver's, what is stored is ours to change.
        wanted = decode_json(encode_json(definition))
        before = plane.store.table(rules.CRDS).get("", wanted["metadata"]["name"])
        if before is None:
            wanted.pop("status", None)
            plane.writer.create(kind, wanted)
            return
        held = plane.writer.read(kind, before)
        outcome = kind.schema.process(wanted)
        if not outcome.errors and json_equal(wanted["spec"], held["spec"]):
            return
        held["spec"] = wanted["spec"]
        plane.writer.replace(kind, before, held)

    def _on_change(self, stored: PlaneStore, table: Table, event: StoreEvent) -> None:
        if table.resource == rules.CRDS:
            plane = self._planes[stored.name]
            if event.deleted:
                plane.registry.undefine(event.after.name)
                for sink in list(stored.table(event.after.name).sinks.values()):
                    sink.end()
            else:
                plane.registry.define(decode_json(event.after.raw))
        elif table.resource == PROJECTS and stored.name == routes.ROOT:
            name = f"{PROJECT}/{event.after.name}"
            if event.deleted and name in self._planes:
                self._drop(name)
            elif event.before is None and PROJECT in self._types:
                self.ensure(name, PROJECT)
