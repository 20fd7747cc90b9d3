"""Whether an owner still lives, before something is made that goes with it."""

from __future__ import annotations

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.runtime.cluster import Cluster


async def owner_exists(cell: Cluster, resource: Resource, owner: Object) -> bool:
    """Asked of the server: what is made for an owner that a cache still shows, and that is
    gone, is collected at once, made again, and so on until the cache has caught up."""
    try:
        found = await cell.client.get(resource, owner.name, owner.namespace)
    except errors.NotFound:
        return False
    return found.metadata.uid == owner.metadata.uid and not found.metadata.deleting
