"""A controller small enough to be read at a glance, with all the duties of a large one.

Orders are on a project plane. The copier keeps a copy of each on the hub, under the same name,
and copies its status back; a worker on the hub sets the status of each copy. The copy of a
deleted order is deleted. There is no finalizer: only names join the two.

:class:`ToyBehaviour` makes it correct, or plants a bug in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.watches.mapping import itself
from datum_compute.runtime.writes.patch import values

ORDERS = Resource("toy.example.com", "v1", "orders", "Order")
COPIES = Resource("toy.example.com", "v1", "copies", "Copy")
NAMESPACE = "default"
ORIGIN = "toy.example.com/order-cluster"
ORDER_UID = "toy.example.com/order-uid"
BY_ORDER_UID = "toy/order-uid"
RESYNC_SECONDS = 30.0


def crd(resource: Resource) -> dict[str, Any]:
    numbers = {"type": "object", "properties": {"size": {"type": "integer"}}}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": numbers, "status": numbers},
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {"kind": resource.kind, "plural": resource.plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def size_of(part: msgspec.Raw) -> int | None:
    size: int | None = values(part).get("size")
    return size


@dataclass(frozen=True)
class ToyBehaviour:
    resyncs: bool = True
    """Requeues after a while without an event; without it, what cannot be done at the moment
    of an event is left to the next event, which may never come."""
    joins_by_uid: bool = False
    """Finds an order's copy by the order's uid instead of its name. A recreated order has
    another uid, and the old copy blocks its name for ever."""
    trusts_cache: bool = False
    """Creates and deletes by its cache, without live reads."""


CORRECT = ToyBehaviour()


def toy_controller(projects: Fleet, hub: Fleet, habits: ToyBehaviour = CORRECT) -> Controller:
    reconciler = ToyReconciler(projects, hub, habits)
    watched = watches(projects, hub)
    return Controller("copier", projects, reconciler.reconcile, watches=watched, workers=2)


def watches(projects: Fleet, hub: Fleet) -> list[Watch]:
    by_uid = {BY_ORDER_UID: _order_uid_of}
    return [
        Watch(projects, ORDERS, itself),
        # Orders are reconciled although the hub may be unreachable.
        Watch(hub, COPIES, _order_of, indexes=by_uid, required=False),
    ]


def _order_of(_: str, copy: Object) -> Iterable[Request]:
    return [Request(copy.metadata.labels.get(ORIGIN, ""), copy.namespace, copy.name)]


def _order_uid_of(copy: Object) -> Iterable[str]:
    return [copy.metadata.labels.get(ORDER_UID, "")]


class ToyReconciler:
    def __init__(self, projects: Fleet, hub: Fleet, habits: ToyBehaviour) -> None:
        self._projects = projects
        self._hub = hub
        self._habits = habits

    async def reconcile(self, request: Request) -> Result:
        project, hub = self._projects.get(request.cluster), self._hub.get("hub")
        if project is None or hub is None:
            return DONE
        if not hub.cache(COPIES).synced:
            return self._later()
        try:
            await self._settle(project, hub, request)
        except errors.TransportFailure:
            return self._later()  # a plane is unreachable: nothing can be done now
        return self._later()

    def _later(self) -> Result:
        return after(RESYNC_SECONDS) if self._habits.resyncs else DONE

    async def _settle(self, project: Cluster, hub: Cluster, request: Request) -> None:
        order = project.cache(ORDERS).get(request.name, request.namespace)
        if order is None:
            await self._collect(project, hub, request)
            return
        copy = self._copy_of(hub, order)
        if copy is None:
            await self._create(project, hub, order)
        elif size_of(copy.spec) != size_of(order.spec):
            await hub.client.patch(
                COPIES, copy.name, merge(_at(copy) | {"spec": values(order.spec)}), NAMESPACE
            )
        elif size_of(copy.status) != size_of(order.status):
            body = _at(order) | {"status": values(copy.status) or None}
            await project.client.patch(
                ORDERS, order.name, merge(body), NAMESPACE, subresource="status"
            )

    def _copy_of(self, hub: Cluster, order: Object) -> Object | None:
        copies = hub.cache(COPIES)
        if self._habits.joins_by_uid:
            found = copies.by_index(BY_ORDER_UID, order.metadata.uid)
            return found[0] if found else None
        return copies.get(order.name, order.namespace)

    async def _create(self, project: Cluster, hub: Cluster, order: Object) -> None:
        if not self._habits.trusts_cache:
            # The cache may be stale: a deleted order needs no copy.
            try:
                order = await project.client.get(ORDERS, order.name, order.namespace)
            except errors.NotFound:
                return
        labels = {ORIGIN: project.name}
        if self._habits.joins_by_uid:
            labels[ORDER_UID] = order.metadata.uid
        body = {"metadata": {"name": order.name, "labels": labels}, "spec": values(order.spec)}
        try:
            await hub.client.create(COPIES, body, order.namespace)
        except errors.AlreadyExists:
            pass  # ours, and not in the cache yet: its event enqueues the order

    async def _collect(self, project: Cluster, hub: Cluster, request: Request) -> None:
        copy = hub.cache(COPIES).get(request.name, request.namespace)
        if copy is None or await self._is_there(project, request):
            return
        try:
            await hub.client.delete(
                COPIES,
                copy.name,
                copy.namespace,
                uid=copy.metadata.uid,
                resource_version=copy.metadata.resource_version,
            )
        except errors.NotFound:
            pass

    async def _is_there(self, project: Cluster, request: Request) -> bool:
        if self._habits.trusts_cache:
            return False
        try:
            await project.client.get(ORDERS, request.name, request.namespace)
        except errors.NotFound:
            return False  # only this is evidence that the order is gone
        return True


def _at(obj: Object) -> dict[str, Any]:
    """The precondition of a patch: no other write came first."""
    return {"metadata": {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version}}


def worker(hub: Fleet) -> Controller:
    """Sets the status of each copy to its size, after a moment's work."""

    async def reconcile(request: Request) -> Result:
        cluster = hub.get(request.cluster)
        copy = cluster.cache(COPIES).get(request.name, request.namespace) if cluster else None
        if cluster is None or copy is None or size_of(copy.spec) == size_of(copy.status):
            return DONE
        await asyncio.sleep(0.2)
        body = _at(copy) | {"status": values(copy.spec)}
        await cluster.client.patch(
            COPIES, copy.name, merge(body), copy.namespace, subresource="status"
        )
        return DONE

    return Controller("worker", hub, reconcile, watches=[Watch(hub, COPIES, itself)], workers=2)
