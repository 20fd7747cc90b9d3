"""Giving back what an Instance took elsewhere: its copy on the hub, its claim in the project.

While a provider still holds the Instance something of it may run, so nothing is given back
before. A plane that cannot be reached holds nothing up: its finalizer goes, and what was
left there is swept when it is seen again (:mod:`.sweep`). A plane that answers no keeps its
own finalizer, and is asked again. What goes and what stays is decided in
:mod:`datum_compute.decisions.connectivity`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.instance.quota import CALL_SECONDS, ClaimManager
from datum_compute.controllers.cell.instance.signals import InstanceSignals
from datum_compute.controllers.cell.instance.write_back import WriteBack
from datum_compute.controllers.planes import project_namespace_of
from datum_compute.decisions.connectivity import (
    PlaneReachability,
    classify_failure,
    decide_release,
    is_claim_kept,
)
from datum_compute.log import get_logger
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes import patch

log = get_logger(__name__)

FINALIZERS = (compute.FINALIZER_INSTANCE, compute.FINALIZER_QUOTA_CLAIM)


def is_held_by_others(instance: Object) -> bool:
    return any(name not in FINALIZERS for name in instance.metadata.finalizers)


@dataclass(frozen=True, slots=True)
class CleanupOutcome:
    """What came of giving something back to a plane."""

    contact: PlaneReachability
    reason: str = ""
    """Why there was no answer."""
    refusal: errors.ClientError | None = None


class Removal:
    def __init__(self, desk: ClaimManager, write_back: WriteBack, signals: InstanceSignals) -> None:
        self._signals = signals
        self._desk = desk
        self._write_back = write_back

    async def clean_up(self, cell: Cluster, hub: Cluster | None, instance: Object) -> None:
        """Raises when a plane answers no; a plane that does not answer is passed over."""
        name, namespace = instance.name, instance.namespace
        copy = claim = CleanupOutcome(PlaneReachability.NOT_USED)
        if hub is not None:
            copy = await cleanup_outcome(self._write_back.clean_up(hub, name, namespace))
            _tell_if_away(copy, name, "hub")
        if self._desk.enabled:
            claim = await cleanup_outcome(self._give_up_claim(cell, instance))
            _tell_if_away(claim, name, "project")
        release = decide_release(hub=copy.contact, project=claim.contact)
        await _release(cell, instance, release.let_go)
        for outcome in (copy, claim):
            if outcome.refusal is not None:
                raise outcome.refusal

    async def _give_up_claim(self, cell: Cluster, instance: Object) -> PlaneReachability:
        tenant = project_namespace_of(cell, instance.namespace)
        plane = self._desk.plane_of(tenant)
        if tenant is None or plane is None:
            # Never stuck Terminating: better a claim too many than an Instance for ever.
            log.error(
                "QuotaClaimOrphaned: the project of an Instance cannot be told",
                namespace=instance.namespace,
                name=instance.name,
            )
            await self._signals.claim_orphaned(cell, instance)
            return PlaneReachability.UNKNOWN
        deployment = instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
        wanting = find_deployment(cell, deployment, instance.namespace)
        if is_claim_kept(instance.view(compute.Instance), wanting):
            return PlaneReachability.ANSWERED
        name = names.claim_name(instance.name)
        claim = await self._desk.find_live(plane, name, tenant.namespace)
        if claim is not None and self._desk.is_ours(claim, instance.namespace):
            await patch.delete_if_present(plane.client, quota.RESOURCE_CLAIMS, claim)
        return PlaneReachability.ANSWERED


def find_deployment(cell: Cluster, name: str, namespace: str) -> compute.WorkloadDeployment | None:
    found = cell.cache(compute.WORKLOAD_DEPLOYMENTS).get(name, namespace) if name else None
    return found.view(compute.WorkloadDeployment) if found is not None else None


async def cleanup_outcome(call: Awaitable[PlaneReachability]) -> CleanupOutcome:
    """Never raises for a plane that does not answer, or answers no."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return CleanupOutcome(await call)
    except (errors.TransportFailure, TimeoutError) as error:
        return CleanupOutcome(classify_failure(None), str(error) or "no answer in time")
    except errors.ClientError as error:
        # An answer that is not the API's form came from somewhere, and is no evidence.
        code = error.code if isinstance(error, errors.StatusError) else 0
        return CleanupOutcome(classify_failure(code), refusal=error)


def _tell_if_away(outcome: CleanupOutcome, name: str, plane: str) -> None:
    if outcome.contact is PlaneReachability.UNREACHABLE:
        log.warning(
            "an Instance is released although a plane is away",
            name=name,
            plane=plane,
            reason=outcome.reason,
        )


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
