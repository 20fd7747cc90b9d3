"""Emptying a project plane before its Project is deleted.

A Project is removed only when everything in it has been deleted, finalizers included. So a purge
discovers the kinds the plane serves and deletes all objects of all of them; it is repeated
while anything is left, because controllers may create more while owners still exist. CRDs and
namespaces stay, they are deleted with the plane; so do Events and Leases.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.api.networking import v1alpha as networking
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.discovery import preferred_versions, served_kinds
from datum_compute.client.protocol import Client
from datum_compute.runtime.tasks import gather_all
from datum_compute.runtime.writes import patch

FIRST: tuple[Resource, ...] = (
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
"""Owners before their dependents, so that fewer objects are created again; other kinds follow by
name."""

EXCLUDED_KINDS = frozenset(
    {
        NAMESPACES.group_resource,
        "customresourcedefinitions.apiextensions.k8s.io",
        "events",
        "leases.coordination.k8s.io",
    }
)
PARALLEL = 16
"""Deletions under way at once; as the real system."""


async def purge(project_client: Client) -> dict[str, int]:
    """Delete everything; returns how many of each kind still existed."""
    left: dict[str, int] = {}
    for resource in in_order(await discover(project_client)):
        try:
            found = (await project_client.list(resource)).items
        except (errors.NotServed, errors.NotFound):
            continue  # the kind was removed since, and its objects with it
        await gather_all(
            [
                patch.delete_if_present(project_client, resource, obj)
                for obj in found
                if not obj.metadata.deleting
            ],
            parallel=PARALLEL,
        )
        if found:
            left[str(resource)] = len(found)
    return left


def in_order(resources: Iterable[Resource]) -> list[Resource]:
    place = {resource.group_resource: number for number, resource in enumerate(FIRST)}
    return sorted(
        resources,
        key=lambda one: (place.get(one.group_resource, len(FIRST)), one.group_resource),
    )


async def discover(project_client: Client) -> list[Resource]:
    """The kinds of which the plane can list and delete objects, each in one version."""
    found: dict[str, Resource] = {}
    for group_version in await preferred_versions(project_client):
        for kind in await served_kinds(project_client, group_version):
            resource = kind.resource(group_version)
            is_purged = resource.group_resource not in EXCLUDED_KINDS
            if is_purged and {"list", "delete"} <= set(kind.verbs):
                found[resource.group_resource] = resource
    return list(found.values())
