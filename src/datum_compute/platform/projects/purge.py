"""Emptying a project plane before its project goes.

Whoever finishes deleting a project may rely on it that everything in it was asked to go and
has gone, finalizers included. So all objects of the kinds below are deleted, and whatever is
left is asked again later, because controllers may go on making things while their owners
are still there.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.runtime import patch

PURGED: tuple[Resource, ...] = (
    compute.WORKLOADS,
    compute.WORKLOAD_DEPLOYMENTS,
    compute.INSTANCES,
    quota.RESOURCE_CLAIMS,
    quota.RESOURCE_GRANTS,
    quota.ALLOWANCE_BUCKETS,
    networking.NETWORKS,
    networking.LOCATION_BINDINGS,
    networking.LOCATIONS,
)
"""Owners before what they own, so that less is asked for twice."""


async def purge(project_client: Client) -> dict[str, int]:
    """Ask everything to go; returns how many of each kind were still there."""
    left: dict[str, int] = {}
    for resource in PURGED:
        try:
            found = (await project_client.list(resource)).items
        except errors.NotServed:
            continue  # a plane without the kind has nothing of it
        for obj in found:
            if not obj.metadata.deleting:
                await patch.delete_if_present(project_client, resource, obj)
        if found:
            left[str(resource)] = len(found)
    return left
