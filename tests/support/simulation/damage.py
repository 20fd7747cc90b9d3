"""Objects that no server would accept, written past it into its store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from datum_compute.api.scheme import Resource
from datum_compute.apiserver.storage.protocol import Store, StoredObject

Wire = dict[str, Any]


def stored_objects(store: Store, plane: str, resource: Resource) -> list[StoredObject]:
    return list(store.planes[plane].table(resource.group_resource).in_order(None))


def damage(
    store: Store,
    plane: str,
    resource: Resource,
    stored: StoredObject,
    change: Callable[[Wire], Any],
) -> None:
    """Change a stored object in place."""
    obj = msgspec.json.decode(stored.raw)
    change(obj)
    store.planes[plane].put(resource.group_resource, obj, stored)
