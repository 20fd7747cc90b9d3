"""Ownership of an object by another on the same plane."""

from __future__ import annotations

from datum_compute.api.meta import Object, owner_reference
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client, merge


async def ensure_owner(
    client: Client, resource: Resource, obj: Object, owner: Object, *, controller: bool
) -> Object:
    """Adopt an object: it has this owner afterwards and no other. A reference to an earlier
    owner of the same name would have it garbage-collected while its true owner exists. Raises
    ``Conflict`` where the object has changed since it was read."""
    if [each.uid for each in obj.metadata.owner_references] == [owner.metadata.uid]:
        return obj
    metadata = {
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
        "ownerReferences": [owner_reference(owner, controller=controller)],
    }
    return await client.patch(resource, obj.name, merge({"metadata": metadata}), obj.namespace)
