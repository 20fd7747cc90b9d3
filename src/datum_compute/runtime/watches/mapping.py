"""How a change becomes requests.

A mapping is a function of the name of the cluster where something changed and of the object
there. It names the cluster of each request, so a mapping may cross planes; those here stay on
the plane, except :func:`all_in_fleet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request

Map = Callable[[str, Object], Iterable[Request]]


def itself(cluster: str, obj: Object) -> list[Request]:
    """The object that changed."""
    return [Request(cluster, obj.namespace, obj.name)]


def controller_owner(kind: str, *, group: str | None = None, namespaced: bool = True) -> Map:
    """The owner of this kind that manages the object, in the same namespace if it is in one.

    With a group, a kind of the same name in another group is not meant.
    """

    def to_owner(cluster: str, obj: Object) -> list[Request]:
        owner = obj.metadata.controller()
        if owner is None or owner.kind != kind or not _is_of_group(owner.api_version, group):
            return []
        return [Request(cluster, obj.namespace if namespaced else "", owner.name)]

    return to_owner


def all_of(fleet: Fleet, resource: Resource, *, same_namespace: bool = False) -> Map:
    """Every cached object of a kind on the cluster of the change, or only those in the
    namespace of the object that changed."""

    def to_all(cluster_name: str, obj: Object) -> Iterable[Request]:
        cluster = fleet.get(cluster_name)
        if cluster is not None:
            namespace = obj.namespace if same_namespace else ""
            for found in cluster.cache(resource).list(namespace):
                yield Request(cluster_name, found.namespace, found.name)

    return to_all


def all_in_fleet(
    fleet: Fleet, resource: Resource, *, where: Callable[[Object, Object], bool] | None = None
) -> Map:
    """Every cached object of a kind on every cluster of a fleet. ``where`` is given a candidate
    and the object that changed."""

    def to_all(_: str, changed: Object) -> Iterable[Request]:
        for cluster in fleet.clusters():
            for found in cluster.cache(resource).list():
                if where is None or where(found, changed):
                    yield Request(cluster.name, found.namespace, found.name)

    return to_all


def by_index(fleet: Fleet, resource: Resource, index: str) -> Map:
    """The objects of a kind that an index of its cache lists under ``namespace/name`` of the
    object that changed."""

    def to_indexed(cluster_name: str, obj: Object) -> Iterable[Request]:
        cluster = fleet.get(cluster_name)
        if cluster is not None:
            key = f"{obj.namespace}/{obj.name}"
            for found in cluster.cache(resource).by_index(index, key):
                yield Request(cluster_name, found.namespace, found.name)

    return to_indexed


def _is_of_group(api_version: str, group: str | None) -> bool:
    return group is None or api_version.rpartition("/")[0] == group
