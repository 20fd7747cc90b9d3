"""Ownership of an object by another on the same plane."""

from __future__ import annotations

import msgspec

from datum_compute.api.meta import Object, OwnerReference, owner_reference
from datum_compute.api.scheme import Resource
from datum_compute.client.protocol import Client, merge
from datum_compute.runtime.writes.patch import Values, refused_labels


async def ensure_owner(
    client: Client, resource: Resource, obj: Object, owner: Object, *, controller: bool
) -> Object:
    """Adopt an object: it has this owner afterwards and no other. A reference to an earlier
    owner of the same name would have it garbage-collected while its true owner exists. Raises
    ``Conflict`` where the object has changed since it was read."""
    wanted = owner_reference(owner, controller=controller)
    if obj.metadata.owner_references == (msgspec.convert(wanted, OwnerReference),):
        return obj
    metadata: Values = {
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
        "ownerReferences": [wanted],
    }
    if refused := refused_labels(obj):
        metadata["labels"] = refused
    return await client.patch(resource, obj.name, merge({"metadata": metadata}), obj.namespace)
