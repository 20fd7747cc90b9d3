"""Giving back what an Instance took elsewhere: its copy on the hub, its claim in the project.

While a provider still holds the Instance something of it may run, so nothing is given back
before. A plane that cannot be reached holds nothing up: its finalizer goes, and what was
left there is swept when it is seen again, because a reconcile of an Instance that is gone
looks for exactly that. A plane that answers no keeps its own finalizer, and is asked again.
What goes and what stays is decided in :mod:`datum_compute.decisions.contact`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.instance.quota import CALL_SECONDS, QuotaDesk
from datum_compute.controllers.cell.instance.signals import InstanceSignals
from datum_compute.controllers.cell.instance.tenancy import tenant_of
from datum_compute.controllers.cell.instance.write_back import WriteBack
from datum_compute.decisions import names
from datum_compute.decisions.contact import (
    Contact,
    Leftovers,
    decide_release,
    decide_sweep,
    is_claim_kept,
    judge_answer,
)
from datum_compute.runtime import patch
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.request import Request

log = logging.getLogger(__name__)

FINALIZERS = (compute.FINALIZER_INSTANCE, compute.FINALIZER_QUOTA_CLAIM)


def is_held_by_others(instance: Object) -> bool:
    return any(name not in FINALIZERS for name in instance.metadata.finalizers)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of giving something back to a plane."""

    contact: Contact
    refusal: errors.ClientError | None = None


class Removal:
    def __init__(self, desk: QuotaDesk, write_back: WriteBack, signals: InstanceSignals) -> None:
        self._signals = signals
        self._desk = desk
        self._write_back = write_back

    async def give_back(self, cell: Cluster, hub: Cluster | None, instance: Object) -> None:
        """Raises when a plane answers no; a plane that does not answer is passed over."""
        name, namespace = instance.name, instance.namespace
        copy = claim = _Outcome(Contact.NOT_USED)
        if hub is not None:
            copy = await _outcome(self._remove_copy(hub, name, namespace), name, "hub")
        if self._desk.enabled:
            claim = await _outcome(self._give_up_claim(cell, instance), name, "project")
        release = decide_release(hub=copy.contact, project=claim.contact)
        await _release(cell, instance, release.let_go)
        for outcome in (copy, claim):
            if outcome.refusal is not None:
                raise outcome.refusal

    async def sweep(self, cell: Cluster, hub: Cluster | None, request: Request) -> None:
        """Remove what is left of an Instance that is gone. Raises when a plane is away, so
        that it is tried again until it answers."""
        name, namespace = request.name, request.namespace
        if not self._leftovers(cell, hub, name, namespace):
            return
        try:
            await cell.client.get(compute.INSTANCES, name, namespace)
        except errors.NotFound:
            left = self._leftovers(cell, hub, name, namespace)
            if left.copy and hub is not None:
                await self._remove_copy(hub, name, namespace)
            if left.claim:
                await self._sweep_claim(cell, name, namespace)

    def _leftovers(
        self, cell: Cluster, hub: Cluster | None, name: str, namespace: str
    ) -> Leftovers:
        """By what the caches have seen."""
        copy = self._write_back.copies_on(hub).get(name, namespace) if hub else None
        claim = self._cached_claim(cell, name, namespace)
        deployment_name, _, _ = name.rpartition("-")
        return decide_sweep(
            source_cluster=self._desk.cluster_name,
            namespace=namespace,
            copy=copy.metadata.labels if copy else None,
            claim=claim.view(quota.ResourceClaim) if claim else None,
            wanting=_wanting(cell, deployment_name, namespace),
        )

    async def _remove_copy(self, hub: Cluster, name: str, namespace: str) -> Contact:
        copy = await self._write_back.find_copy(hub, name, namespace)
        if copy is not None:
            await self._write_back.remove_copy(hub, copy)
        return Contact.ANSWERED

    async def _give_up_claim(self, cell: Cluster, instance: Object) -> Contact:
        tenant = tenant_of(cell, instance.namespace)
        plane = self._desk.plane_of(tenant)
        if tenant is None or plane is None:
            # Never stuck Terminating: better a claim too many than an Instance for ever.
            log.error(
                "QuotaClaimOrphaned: the project of an Instance cannot be told",
                extra={"fields": {"namespace": instance.namespace, "name": instance.name}},
            )
            await self._signals.claim_orphaned(cell, instance)
            return Contact.UNKNOWN
        deployment = instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
        wanting = _wanting(cell, deployment, instance.namespace)
        if is_claim_kept(instance.view(compute.Instance), wanting):
            return Contact.ANSWERED
        name = names.claim_name(instance.name)
        claim = await self._desk.find_live(plane, name, tenant.namespace)
        if claim is not None and self._desk.is_ours(claim, instance.namespace):
            await patch.delete_if_present(plane.client, quota.RESOURCE_CLAIMS, claim)
        return Contact.ANSWERED

    def _cached_claim(self, cell: Cluster, name: str, namespace: str) -> Object | None:
        tenant = tenant_of(cell, namespace)
        plane = self._desk.plane_of(tenant)
        if tenant is None or plane is None:
            return None
        return self._desk.claims_in(plane).get(names.claim_name(name), tenant.namespace)

    async def _sweep_claim(self, cell: Cluster, name: str, namespace: str) -> None:
        claim = self._cached_claim(cell, name, namespace)
        plane = self._desk.plane_of(tenant_of(cell, namespace))
        if claim is not None and plane is not None:
            await patch.delete_if_present(plane.client, quota.RESOURCE_CLAIMS, claim)


def _wanting(cell: Cluster, name: str, namespace: str) -> compute.WorkloadDeployment | None:
    found = cell.cache(compute.WORKLOAD_DEPLOYMENTS).get(name, namespace) if name else None
    return found.view(compute.WorkloadDeployment) if found is not None else None


async def _outcome(call: Awaitable[Contact], name: str, where: str) -> _Outcome:
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return _Outcome(await call)
    except (errors.TransportFailure, TimeoutError) as error:
        log.warning(
            "an Instance is released although a plane is away",
            extra={"fields": {"name": name, "plane": where, "reason": str(error)}},
        )
        return _Outcome(judge_answer(None))
    except errors.ClientError as error:
        # An answer that is not the API's form came from somewhere, and is no evidence.
        code = error.code if isinstance(error, errors.StatusError) else 0
        return _Outcome(judge_answer(code), error)


async def _release(cell: Cluster, instance: Object, finalizers: Sequence[str]) -> None:
    """All in one write."""
    left = [name for name in instance.metadata.finalizers if name not in finalizers]
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
