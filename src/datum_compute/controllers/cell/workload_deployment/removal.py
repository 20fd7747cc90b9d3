"""Deletion of a deployment: all Instances at once, then the finalizer."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.cell.workload_deployment.instances import instances_of
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import has_live
from datum_compute.runtime.result import Waiting
from datum_compute.runtime.writes import patch


async def remove(cell: Cluster, deployment: Object) -> list[Object]:
    """Delete the Instances, and release the finalizer when a live read finds none. Returns the
    Instances that were found, for the status."""
    found = instances_of(cell, deployment)
    for instance in found:
        if not instance.metadata.deleting:
            await patch.delete_if_present(cell.client, compute.INSTANCES, instance)
    if not found:
        selector = f"{compute.LABEL_WORKLOAD_DEPLOYMENT_UID}={deployment.metadata.uid}"
        namespace = deployment.namespace
        if await has_live(cell.client, compute.INSTANCES, namespace, label_selector=selector):
            raise Waiting("the cache has not seen all Instances of the deployment yet", 1.0)
        await patch.release_finalizer(
            cell.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            compute.FINALIZER_WORKLOAD_DEPLOYMENT,
        )
    return found
