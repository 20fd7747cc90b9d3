"""Reads that bypass the cache, for decisions a stale cache must not make.

An object missing from a cache may only be new, and an owner in a cache may be deleted already.
So before a controller deletes because something is absent, or creates under an owner, it reads
the server.
"""

from __future__ import annotations

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client


async def find_live(
    client: Client, resource: Resource, name: str, namespace: str = ""
) -> Object | None:
    """The object as the server has it, or None where the server answers that there is none.
    Every other failure is raised: no answer is no evidence of absence."""
    try:
        return await client.get(resource, name, namespace)
    except errors.NotFound:
        return None


async def is_live(client: Client, resource: Resource, obj: Object) -> bool:
    """Whether this very object, by uid, exists and is not being deleted."""
    found = await find_live(client, resource, obj.name, obj.namespace)
    return (
        found is not None and found.metadata.uid == obj.metadata.uid and not found.metadata.deleting
    )


async def has_live(
    client: Client, resource: Resource, namespace: str = "", *, label_selector: str = ""
) -> bool:
    """Whether the server has any object of a kind, in a namespace or with these labels."""
    found = await client.list(resource, namespace, label_selector=label_selector, limit=1)
    return bool(found.items)
