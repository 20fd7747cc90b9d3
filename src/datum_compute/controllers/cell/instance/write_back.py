"""The Instance's copy on the hub, which management projects into the project.

Each reconcile compares the copy and writes it when it differs. The hub's WorkloadDeployment owns
the copy: the copy is deleted with it, and not created without it. The owner is read live when a
copy is created: a watch would send the status of every cell's deployments to every cell. A cell
touches only copies that carry its own name.
"""

from __future__ import annotations

from datum_compute.api import core
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, owner_reference
from datum_compute.client import errors
from datum_compute.controllers.cell.instance.signals import InstanceSignals
from datum_compute.decisions.connectivity import PlaneReachability, is_own_copy
from datum_compute.log import get_logger
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.ownership import ensure_owner
from datum_compute.runtime.writes.spec_copies import SpecCopies

log = get_logger(__name__)

COPIED_LABELS = (
    compute.LABEL_WORKLOAD_UID,
    compute.LABEL_WORKLOAD_DEPLOYMENT_UID,
    compute.LABEL_INSTANCE_INDEX,
    compute.LABEL_WORKLOAD_DEPLOYMENT_NAME,
    compute.LABEL_CITY_CODE,
    compute.LABEL_WORKLOAD_NAME,
    compute.LABEL_PLACEMENT_NAME,
)


class WriteBack:
    def __init__(self, cluster_name: str, signals: InstanceSignals) -> None:
        self._cluster_name = cluster_name
        self._signals = signals
        self._copies = SpecCopies()

    def copies_on(self, hub: Cluster) -> Cache:
        """The copies of this cell."""
        return hub.cache(compute.INSTANCES, label_selector=self.selector)

    @property
    def selector(self) -> str:
        return f"{compute.LABEL_SOURCE_CLUSTER}={self._cluster_name}"

    def has_synced(self, hub: Cluster) -> bool:
        """Whether the caches of copies and namespaces have synced."""
        return self.copies_on(hub).synced and hub.cache(core.NAMESPACES).synced

    def has_copy_of_another(self, hub: Cluster, instance: Object) -> bool:
        """Whether the copy of this name is of another Instance: a predecessor, or a successor
        that the cell's cache has not seen yet."""
        copy = self.copies_on(hub).get(instance.name, instance.namespace)
        return copy is not None and _is_of_another(copy, instance)

    async def ensure_copy(self, hub: Cluster, instance: Object) -> bool:
        """Create or correct the copy. False when the caller should try again later: the owner
        does not exist on the hub, or another object has the name. Raises client errors."""
        deployment = instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME)
        if not deployment:
            log.warning(
                "Instance has no deployment label; not written back to the hub",
                namespace=instance.namespace,
                name=instance.name,
            )
            return True
        copy = self.copies_on(hub).get(instance.name, instance.namespace)
        if copy is not None and _is_of_another(copy, instance):
            # Recreated, not corrected: the age of a copy is that of its Instance.
            await self.remove_copy(hub, copy)
            copy = None
        if copy is not None and copy.metadata.deleting:
            return True
        owner = None
        if copy is None or not _is_owned_by(copy, deployment):
            owner = await _find_owner(hub, deployment, instance.namespace)
            if owner is None:
                return False
        if copy is None:
            assert owner is not None
            copy = await self._create_or_find(hub, instance, owner)
            if copy is None:
                return False
        copy = await self._correct(hub, instance, owner, copy)
        if instance.status:
            reported = await patch.copy_status(hub.client, compute.INSTANCES, copy, instance.status)
            self._signals.record_hub_write(copy, reported)
        return True

    async def find_copy(self, hub: Cluster, name: str, namespace: str) -> Object | None:
        """The copy by a live read, if it exists and carries this cell's name."""
        copy = await find_live(hub.client, compute.INSTANCES, name, namespace)
        if copy is None:
            return None
        ours = is_own_copy(copy.metadata.labels, source_cluster=self._cluster_name)
        return copy if ours else None

    async def clean_up(self, hub: Cluster, name: str, namespace: str) -> PlaneReachability:
        """Delete the copy, if it exists and carries this cell's name."""
        copy = await self.find_copy(hub, name, namespace)
        if copy is not None:
            await self.remove_copy(hub, copy)
        return PlaneReachability.ANSWERED

    async def remove_copy(self, hub: Cluster, copy: Object) -> None:
        await patch.delete_if_present(hub.client, compute.INSTANCES, copy)
        self._signals.record_hub_deletion()
        self._copies.forget(copy.metadata.uid)

    async def _create_or_find(self, hub: Cluster, instance: Object, owner: Object) -> Object | None:
        """A new copy, or this Instance's own that lost the label by which the cache selects; None
        where the name is taken."""
        body = {
            "metadata": {
                "name": instance.name,
                "namespace": instance.namespace,
                "labels": await self._labels(hub, instance),
                "annotations": _annotations(instance),
                "ownerReferences": [owner_reference(owner, controller=True)],
            },
            "spec": instance.spec,
        }
        try:
            created = await hub.client.create(compute.INSTANCES, body, instance.namespace)
            return self._signals.record_hub_write(None, created)
        except errors.AlreadyExists:
            found = await find_live(
                hub.client, compute.INSTANCES, instance.name, instance.namespace
            )
            if found is not None and not found.metadata.deleting and self._is_copy(found, instance):
                return found
            # Another cell's copy, or a predecessor's that is being deleted.
            log.warning(
                "the hub already has an Instance of this name; trying again later",
                namespace=instance.namespace,
                name=instance.name,
            )
            return None

    def _is_copy(self, found: Object, instance: Object) -> bool:
        """Whether its uid says so, or it lost its uid and no other cell has it."""
        uid = found.metadata.annotations.get(compute.ANNOTATION_INSTANCE_UID)
        if uid:
            return uid == instance.metadata.uid
        holder = found.metadata.labels.get(compute.LABEL_SOURCE_CLUSTER, self._cluster_name)
        return holder == self._cluster_name

    async def _correct(
        self, hub: Cluster, instance: Object, owner: Object | None, copy: Object
    ) -> Object:
        """Correct the copy; also adopt it when ``owner`` is given."""
        if owner is not None:
            adopted = await ensure_owner(
                hub.client, compute.INSTANCES, copy, owner, controller=True
            )
            copy = self._signals.record_hub_write(copy, adopted)
        corrected = await self._copies.ensure(
            hub.client,
            compute.INSTANCES,
            copy,
            instance.spec,
            labels=await self._labels(hub, instance),
            annotations=_annotations(instance),
        )
        return self._signals.record_hub_write(copy, corrected)

    async def _labels(self, hub: Cluster, instance: Object) -> dict[str, str]:
        labels = {
            key: instance.metadata.labels[key]
            for key in COPIED_LABELS
            if key in instance.metadata.labels
        }
        labels[compute.LABEL_SOURCE_CLUSTER] = self._cluster_name
        namespace = await _find_namespace(hub, instance.namespace)
        upstream = namespace.metadata.labels if namespace is not None else {}
        labels[compute.LABEL_UPSTREAM_CLUSTER_NAME] = upstream.get(
            compute.LABEL_UPSTREAM_CLUSTER_NAME, names.encode_cluster(self._cluster_name)
        )
        labels[compute.LABEL_UPSTREAM_NAMESPACE] = upstream.get(
            compute.LABEL_UPSTREAM_NAMESPACE, instance.namespace
        )
        return labels


async def _find_namespace(hub: Cluster, name: str) -> Object | None:
    """The hub namespace, read live where the cache lacks it: a copy with labels of no project would
    not be projected, and no event would correct it."""
    found = hub.cache(core.NAMESPACES).get(name)
    return found or await find_live(hub.client, core.NAMESPACES, name)


def _annotations(instance: Object) -> dict[str, str]:
    return {compute.ANNOTATION_INSTANCE_UID: instance.metadata.uid}


def _is_of_another(copy: Object, instance: Object) -> bool:
    uid = copy.metadata.annotations.get(compute.ANNOTATION_INSTANCE_UID)
    return bool(uid) and uid != instance.metadata.uid


def _is_owned_by(copy: Object, deployment: str) -> bool:
    """By name, not uid: copies of a deleted owner are deleted with it."""
    owner = copy.metadata.controller()
    kind = compute.WORKLOAD_DEPLOYMENTS
    return (
        len(copy.metadata.owner_references) == 1
        and owner is not None
        and (owner.api_version, owner.kind, owner.name) == (kind.api_version, kind.kind, deployment)
        and owner.block_owner_deletion
    )


async def _find_owner(hub: Cluster, name: str, namespace: str) -> Object | None:
    """The deployment by a live read: a copy under a deleted owner would be garbage-collected, and
    created again for as long as the cache is stale."""
    found = await find_live(hub.client, compute.WORKLOAD_DEPLOYMENTS, name, namespace)
    return None if found is None or found.metadata.deleting else found
