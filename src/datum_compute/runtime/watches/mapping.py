"""How a change becomes requests.

A mapping is a function of the name of the cluster where something changed and of the
object there. It names the cluster of each request itself, so a mapping that crosses planes
says where to: :func:`itself` and :func:`controller_owner` stay on the plane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from datum_compute.api.meta import Object
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


def owner_of_kind(kind: str, *, group: str | None = None) -> Map:
    """Every owner of this kind, whether it manages the object or not."""

    def to_owners(cluster: str, obj: Object) -> list[Request]:
        return [
            Request(cluster, obj.namespace, owner.name)
            for owner in obj.metadata.owner_references
            if owner.kind == kind and _is_of_group(owner.api_version, group)
        ]

    return to_owners


def label_value(label: str) -> Map:
    """The object in the same namespace that a label names."""

    def to_named(cluster: str, obj: Object) -> list[Request]:
        name = obj.metadata.labels.get(label)
        return [Request(cluster, obj.namespace, name)] if name else []

    return to_named


def _is_of_group(api_version: str, group: str | None) -> bool:
    return group is None or api_version.rpartition("/")[0] == group
