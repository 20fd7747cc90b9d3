"""The Instance's copy on the hub, which management projects into the project.

Compared on every reconcile, written when it differs. The hub's WorkloadDeployment owns the
copy: it is deleted with it, and not created without it. The owner is read live when a copy is
created: a watch would bring every cell the reports of all others. A cell touches only copies
that carry its own name.
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
        """Whether the caches to compare with have synced."""
        return self.copies_on(hub).synced and hub.cache(core.NAMESPACES).synced

    def has_copy_of_another(self, hub: Cluster, instance: Object) -> bool:
        """Whether the copy of this name is of a predecessor, or of a successor that the cache
        of the cell has not seen yet."""
        copy = self.copies_on(hub).get(instance.name, instance.namespace)
        return copy is not None and _is_of_another(copy, instance)

    async def ensure_copy(self, hub: Cluster, instance: Object) -> bool:
        """False while the owner does not exist on the hub, or another object has the name: try
        again later. Raises client errors, also for an unreachable hub."""
        deployment = instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME)
        if not deployment:
            log.warning(
                "Instance without its deployment label, not written back to the hub",
                namespace=instance.namespace,
                name=instance.name,
            )
            return True
        copy = self.copies_on(hub).get(instance.name, instance.namespace)
        if copy is not None and _is_of_another(copy, instance):
            # Of another Instance of this name: a copy has the age of its Instance.
            await self.remove_copy(hub, copy)
            copy = None
        before = copy
        if copy is not None and copy.metadata.deleting:
            return True
        owner = None
        if copy is None or not _is_owned_by(copy, deployment):
            owner = await _find_owner(hub, deployment, instance.namespace)
            if owner is None:
                return False
        if copy is None:
            assert owner is not None
            copy = await self._create(hub, instance, owner)
            if copy is None:
                return False
        else:
            copy = await self._correct(hub, instance, owner, copy)
        if instance.status:
            copy = await patch.copy_status(hub.client, compute.INSTANCES, copy, instance.status)
        self._signals.record_write_back(before, instance, copy)
        return True

    async def find_copy(self, hub: Cluster, name: str, namespace: str) -> Object | None:
        """The copy by a live read, if it exists and is this cell's."""
        copy = await find_live(hub.client, compute.INSTANCES, name, namespace)
        if copy is None:
            return None
        ours = is_own_copy(copy.metadata.labels, source_cluster=self._cluster_name)
        return copy if ours else None

    async def clean_up(self, hub: Cluster, name: str, namespace: str) -> PlaneReachability:
        """Delete the copy of an Instance, if it exists and is this cell's."""
        copy = await self.find_copy(hub, name, namespace)
        if copy is not None:
            await self.remove_copy(hub, copy)
        return PlaneReachability.ANSWERED

    async def remove_copy(self, hub: Cluster, copy: Object) -> None:
        await patch.delete_if_present(hub.client, compute.INSTANCES, copy)
        self._copies.forget(copy.metadata.uid)

    async def _create(self, hub: Cluster, instance: Object, owner: Object) -> Object | None:
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
            return await hub.client.create(compute.INSTANCES, body, instance.namespace)
        except errors.AlreadyExists:
            # Another cell's, or one of this cell that the cache has not seen yet.
            log.warning(
                "the hub has an Instance of this name that is not this cell's",
                namespace=instance.namespace,
                name=instance.name,
            )
            return None

    async def _correct(
        self, hub: Cluster, instance: Object, owner: Object | None, copy: Object
    ) -> Object:
        """With ``owner``, the copy is adopted."""
        if owner is not None:
            copy = await ensure_owner(hub.client, compute.INSTANCES, copy, owner, controller=True)
        return await self._copies.ensure(
            hub.client,
            compute.INSTANCES,
            copy,
            instance.spec,
            labels=await self._labels(hub, instance),
            annotations=_annotations(instance),
        )

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
    """From the cache, else live: a copy that names the wrong project is projected into none,
    and no event would correct it."""
    found = hub.cache(core.NAMESPACES).get(name)
    return found or await find_live(hub.client, core.NAMESPACES, name)


def _annotations(instance: Object) -> dict[str, str]:
    return {compute.ANNOTATION_INSTANCE_UID: instance.metadata.uid}


def _is_of_another(copy: Object, instance: Object) -> bool:
    uid = copy.metadata.annotations.get(compute.ANNOTATION_INSTANCE_UID)
    return bool(uid) and uid != instance.metadata.uid


def _is_owned_by(copy: Object, deployment: str) -> bool:
    """By name: an owner that was replaced took its copies with it."""
    owners = copy.metadata.owner_references
    kind = compute.WORKLOAD_DEPLOYMENTS.kind
    return len(owners) == 1 and owners[0].kind == kind and owners[0].name == deployment


async def _find_owner(hub: Cluster, name: str, namespace: str) -> Object | None:
    """The deployment by a live read. Under a deleted one the copy would be garbage-collected
    and created again until a stale cache has caught up."""
    found = await find_live(hub.client, compute.WORKLOAD_DEPLOYMENTS, name, namespace)
    return None if found is None or found.metadata.deleting else found
