"""Creating objects whose names are deterministic, from a cache that may be stale.

A cache that has not seen an object yet lets a reconcile create it a second time; the server
answers AlreadyExists, and each function documents what follows. Bodies need neither ``apiVersion``
nor ``kind``: the client fills them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datum_compute.api.meta import Object, owner_reference
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.runtime.live_reads import is_live
from datum_compute.runtime.result import Waiting


async def create_if_absent(
    client: Client, resource: Resource, body: Mapping[str, Any], namespace: str = ""
) -> Object | None:
    """The new object, or None where one of this name exists."""
    try:
        return await client.create(resource, body, namespace)
    except errors.AlreadyExists:
        return None


async def create_or_wait(
    client: Client,
    resource: Resource,
    body: Mapping[str, Any],
    namespace: str = "",
    *,
    delay: float = 1.0,
) -> Object:
    """The new object. Raises ``Waiting`` where one of this name exists: the cache has not seen
    it yet, or it is a predecessor whose deletion has not finished."""
    try:
        return await client.create(resource, body, namespace)
    except errors.AlreadyExists as error:
        name = body["metadata"]["name"]
        raise Waiting(f"{resource} {name} exists and is not in the cache", delay) from error


async def create_owned(
    client: Client,
    resource: Resource,
    body: Mapping[str, Any],
    owner_resource: Resource,
    owner: Object,
    *,
    controller: bool = True,
    delay: float = 1.0,
) -> Object | None:
    """Create under an owner that exists; None, and no write, where it does not.

    The owner is read live, by uid. Under an owner that only the cache still has, the object
    would be collected at once and created again, until the cache has caught up. Raises
    ``Waiting`` where an object of this name exists.
    """
    if not await is_live(client, owner_resource, owner):
        return None
    references = [owner_reference(owner, controller=controller)]
    metadata = {**body["metadata"], "ownerReferences": references}
    owned = {**body, "metadata": metadata}
    return await create_or_wait(client, resource, owned, metadata.get("namespace", ""), delay=delay)
