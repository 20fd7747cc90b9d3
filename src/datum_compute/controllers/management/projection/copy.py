"""Creates or corrects a projection from the hub copy and its owner in the project."""

from __future__ import annotations

from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, owner_reference
from datum_compute.client.protocol import Client
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.ownership import ensure_owner
from datum_compute.runtime.writes.spec_copies import SpecCopies


def is_projection(instance: Object) -> bool:
    """Whether the projector created it; other Instances of a project plane are left alone."""
    return (
        compute.ANNOTATION_INSTANCE_UID in instance.metadata.annotations
        or compute.LABEL_WORKLOAD_DEPLOYMENT_NAME in instance.metadata.labels
    )


def is_of_predecessor(projection: Object, hub_instance: Object) -> bool:
    """Whether the projection is of an earlier Instance of this name. False where one of the two has
    no instance-uid: the projection is then corrected in place."""
    projected = projection.metadata.annotations.get(compute.ANNOTATION_INSTANCE_UID)
    wanted = hub_instance.metadata.annotations.get(compute.ANNOTATION_INSTANCE_UID)
    return bool(projected and wanted and projected != wanted)


async def ensure_projection(
    project_client: Client,
    copies: SpecCopies,
    hub_instance: Object,
    owner: Object,
    projection: Object | None,
) -> Object:
    """Create or correct spec and metadata, then the status."""
    if projection is None:
        projection = await project_client.create(
            compute.INSTANCES, _build(hub_instance, owner), owner.namespace
        )
    else:
        projection = await _correct(project_client, copies, hub_instance, owner, projection)
    if hub_instance.status:
        projection = await patch.copy_status(
            project_client, compute.INSTANCES, projection, hub_instance.status
        )
    return projection


def _build(hub_instance: Object, owner: Object) -> dict[str, Any]:
    return {
        "metadata": {
            "name": hub_instance.name,
            "namespace": owner.namespace,
            "labels": _labels(hub_instance, owner),
            "annotations": _annotations(hub_instance),
            "ownerReferences": [owner_reference(owner, controller=False)],
        },
        "spec": hub_instance.spec,
    }


async def _correct(
    project_client: Client,
    copies: SpecCopies,
    hub_instance: Object,
    owner: Object,
    projection: Object,
) -> Object:
    # Adopts a projection without an owner, or with an earlier one.
    projection = await ensure_owner(
        project_client, compute.INSTANCES, projection, owner, controller=False
    )
    return await copies.ensure(
        project_client,
        compute.INSTANCES,
        projection,
        hub_instance.spec,
        labels=_labels(hub_instance, owner),
        annotations=_annotations(hub_instance),
    )


def _labels(hub_instance: Object, owner: Object) -> dict[str, str]:
    # The uid of the deployment on the hub means nothing here.
    own = {compute.LABEL_WORKLOAD_DEPLOYMENT_UID: owner.metadata.uid}
    return {**hub_instance.metadata.labels, **own}


def _annotations(hub_instance: Object) -> dict[str, str]:
    key = compute.ANNOTATION_INSTANCE_UID
    uid = hub_instance.metadata.annotations.get(key)
    return {key: uid} if uid else {}
