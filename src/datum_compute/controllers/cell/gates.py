"""Removes scheduling gates; two controllers remove gates from the same list."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client.protocol import Client, merge
from datum_compute.decisions.instances import gates


async def ensure_gates_removed(cell_client: Client, instance: Object, *removed: str) -> Object:
    """Remove the gates and return the Instance as stored. A merge patch replaces the whole list,
    so it carries the resource version: ``Conflict`` when the other controller was first."""
    left = gates.gates_without(instance.view(compute.Instance), *removed)
    if left is None:
        return instance
    body = {
        "metadata": {
            "uid": instance.metadata.uid,
            "resourceVersion": instance.metadata.resource_version,
        },
        "spec": {"controller": {"schedulingGates": left}},
    }
    return await cell_client.patch(
        compute.INSTANCES, instance.name, merge(body), instance.namespace
    )
