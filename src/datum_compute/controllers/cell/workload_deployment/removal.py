"""The end of a deployment: its Instances go first, all at once, and it waits for the last."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.cell.workload_deployment.instances import instances_of
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.result import Waiting
from datum_compute.runtime.writes import patch


async def remove(cell: Cluster, deployment: Object) -> list[Object]:
    """Delete what is left; release the deployment when the server says nothing is.
    The result is what was found, for the status."""
    found = instances_of(cell, deployment)
    for instance in found:
        if not instance.metadata.deleting:
            await patch.delete_if_present(cell.client, compute.INSTANCES, instance)
    if not found:
        if await _live_instances(cell, deployment):
            raise Waiting("the cache has not seen all Instances of the deployment yet", 1.0)
        await patch.release_finalizer(
            cell.client,
            compute.WORKLOAD_DEPLOYMENTS,
            deployment,
            compute.FINALIZER_WORKLOAD_DEPLOYMENT,
        )
    return found


async def _live_instances(cell: Cluster, deployment: Object) -> bool:
    found = await cell.client.list(
        compute.INSTANCES,
        deployment.namespace,
        label_selector=f"{compute.LABEL_WORKLOAD_DEPLOYMENT_UID}={deployment.metadata.uid}",
        limit=1,
    )
    return bool(found.items)
