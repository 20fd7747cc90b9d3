"""Giving back what an Instance took elsewhere: its copy on the hub, its claim in the project.

While a provider still holds the Instance something of it may run, so nothing is given back
before. A plane that cannot be reached holds nothing up: the finalizers go, and what was
left there is swept when it is seen again, because a reconcile of an Instance that is gone
looks for exactly that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.instance.quota import CALL_SECONDS, QuotaDesk
from datum_compute.controllers.cell.instance.tenancy import tenant_of
from datum_compute.controllers.cell.instance.write_back import WriteBack
from datum_compute.decisions import names
from datum_compute.decisions import quota as decisions
from datum_compute.runtime import patch
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.request import Request

log = logging.getLogger(__name__)

FINALIZERS = (compute.FINALIZER_INSTANCE, compute.FINALIZER_QUOTA_CLAIM)


def is_held_by_others(instance: Object) -> bool:
    return any(name not in FINALIZERS for name in instance.metadata.finalizers)


class Removal:
    def __init__(self, desk: QuotaDesk, write_back: WriteBack) -> None:
        self._desk = desk
        self._write_back = write_back

    async def give_back(self, cell: Cluster, hub: Cluster | None, instance: Object) -> None:
        """Raises when a plane answers no; a plane that does not answer is passed over."""
        name, namespace = instance.name, instance.namespace
        if hub is not None:
            await _unless_away(self._remove_copy(hub, name, namespace), name, "hub")
        if self._desk.enabled:
            await _unless_away(self._give_up_claim(cell, instance), name, "project")
        await _release(cell, instance)

    async def sweep(self, cell: Cluster, hub: Cluster | None, request: Request) -> None:
        """Remove what is left of an Instance that is gone. Raises when a plane is away, so
        that it is tried again until it answers."""
        name, namespace = request.name, request.namespace
        leftovers = (
            hub is not None and self._write_back.copies_on(hub).get(name, namespace) is not None
        ) or self._cached_claim(cell, name, namespace) is not None
        if not leftovers:
            return
        try:
            await cell.client.get(compute.INSTANCES, name, namespace)
        except errors.NotFound:
            if hub is not None:
                await self._remove_copy(hub, name, namespace)
            await self._sweep_claim(cell, name, namespace)

    async def _remove_copy(self, hub: Cluster, name: str, namespace: str) -> None:
        copy = await self._write_back.find_copy(hub, name, namespace)
        if copy is not None:
            await self._write_back.remove_copy(hub, copy)

    async def _give_up_claim(self, cell: Cluster, instance: Object) -> None:
        tenant = tenant_of(cell, instance.namespace)
        plane = self._desk.plane_of(tenant)
        if tenant is None or plane is None:
            # Never stuck Terminating: better a claim too many than an Instance for ever.
            log.error(
                "QuotaClaimOrphaned: the project of an Instance cannot be told",
                extra={"fields": {"namespace": instance.namespace, "name": instance.name}},
            )
            return
        if _is_kept(cell, instance):
            return
        name = names.claim_name(instance.name)
        claim = await self._desk.find_live(plane, name, tenant.namespace)
        if claim is not None and self._desk.is_ours(claim, instance.namespace):
            await patch.delete_if_present(plane.client, quota.RESOURCE_CLAIMS, claim)

    def _cached_claim(self, cell: Cluster, name: str, namespace: str) -> Object | None:
        tenant = tenant_of(cell, namespace)
        plane = self._desk.plane_of(tenant)
        if tenant is None or plane is None:
            return None
        claim = self._desk.claims_in(plane).get(names.claim_name(name), tenant.namespace)
        if claim is None or not self._desk.is_ours(claim, namespace):
            return None
        return None if _is_awaited(cell, claim, name, namespace) else claim

    async def _sweep_claim(self, cell: Cluster, name: str, namespace: str) -> None:
        claim = self._cached_claim(cell, name, namespace)
        plane = self._desk.plane_of(tenant_of(cell, namespace))
        if claim is not None and plane is not None:
            await patch.delete_if_present(plane.client, quota.RESOURCE_CLAIMS, claim)


def _is_kept(cell: Cluster, instance: Object) -> bool:
    """Whether a replacement will want this very claim."""
    labels = instance.metadata.labels
    deployment_name = labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
    deployment = _wanting(cell, deployment_name, instance.namespace)
    if deployment is None:
        return False
    return decisions.keeps_claim(
        ordinal=names.ordinal_of(labels, instance.name, deployment_name),
        desired=deployment.spec.scale_settings.min_replicas,
        size=decisions.decide_size(instance.view(compute.Instance).spec),
        wanted=decisions.decide_size(deployment.spec.template.spec),
    )


def _is_awaited(cell: Cluster, claim: Object, name: str, namespace: str) -> bool:
    """Whether the claim of an absent Instance waits for its replacement."""
    deployment_name, _, _ = name.rpartition("-")
    deployment = _wanting(cell, deployment_name, namespace)
    if deployment is None:
        return False
    ordinal = names.ordinal_of({}, name, deployment_name)
    size = decisions.decide_size(deployment.spec.template.spec)
    return (
        ordinal is not None
        and ordinal < deployment.spec.scale_settings.min_replicas
        and decisions.claim_fits(claim.view(quota.ResourceClaim), size)
    )


def _wanting(cell: Cluster, name: str, namespace: str) -> compute.WorkloadDeployment | None:
    found = cell.cache(compute.WORKLOAD_DEPLOYMENTS).get(name, namespace) if name else None
    if found is None or found.metadata.deleting:
        return None
    return found.view(compute.WorkloadDeployment)


async def _unless_away(call: Awaitable[None], name: str, where: str) -> None:
    try:
        async with asyncio.timeout(CALL_SECONDS):
            await call
    except (errors.TransportFailure, TimeoutError) as error:
        log.warning(
            "an Instance is released although a plane is away",
            extra={"fields": {"name": name, "plane": where, "reason": str(error)}},
        )


async def _release(cell: Cluster, instance: Object) -> None:
    """Both finalizers in one write."""
    left = [name for name in instance.metadata.finalizers if name not in FINALIZERS]
    if len(left) == len(instance.metadata.finalizers):
        return
    metadata = {
        "uid": instance.metadata.uid,
        "resourceVersion": instance.metadata.resource_version,
        "finalizers": left,
    }
    try:
        await cell.client.patch(
            compute.INSTANCES, instance.name, merge({"metadata": metadata}), instance.namespace
        )
    except errors.NotFound:
        pass
