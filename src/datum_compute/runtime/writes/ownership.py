"""Hanging an object under its owner on the same plane."""

from __future__ import annotations

from datum_compute.api.meta import Object, owner_reference
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client, merge


async def ensure_owner(
    client: Client, resource: Resource, obj: Object, owner: Object, *, controller: bool
) -> Object:
    """The object with this owner and no other: a reference to an earlier owner of the same
    name would have the object collected while its true owner lives."""
    if [each.uid for each in obj.metadata.owner_references] == [owner.metadata.uid]:
        return obj
    metadata = {
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
        "ownerReferences": [owner_reference(owner, controller=controller)],
    }
    return await client.patch(resource, obj.name, merge({"metadata": metadata}), obj.namespace)
