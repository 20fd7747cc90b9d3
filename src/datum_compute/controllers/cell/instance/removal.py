"""Deletion of an Instance: its copy on the hub, its claim in the project, its finalizers.

While the provider's finalizer is set the Instance may still run, so nothing is released. An
unreachable plane does not block deletion: its finalizer is released, and what is left there is
deleted once it is reachable again (:mod:`.sweep`). The finalizer of a plane that refuses the
deletion stays, and the deletion is retried. :mod:`datum_compute.decisions.connectivity` decides
which finalizers are released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
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
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.writes import patch

log = get_logger(__name__)

FINALIZERS = (compute.FINALIZER_INSTANCE, compute.FINALIZER_QUOTA_CLAIM)


def has_other_finalizers(instance: Object) -> bool:
    return any(name not in FINALIZERS for name in instance.metadata.finalizers)


@dataclass(frozen=True, slots=True)
class CleanupOutcome:
    """The result of a clean-up on one plane."""

    contact: PlaneReachability
    reason: str = ""
    """Why the plane is unreachable."""
    refusal: errors.ClientError | None = None


class Removal:
    def __init__(
        self, claims: ClaimManager, write_back: WriteBack, signals: InstanceSignals
    ) -> None:
        self._signals = signals
        self._claims = claims
        self._write_back = write_back

    async def clean_up(self, cell: Cluster, hub: Cluster | None, instance: Object) -> None:
        """Delete copy and claim, and release the finalizers of each. Skips an unreachable plane;
        raises, after the release, when a plane refuses."""
        name, namespace = instance.name, instance.namespace
        copy = claim = CleanupOutcome(PlaneReachability.NOT_USED)
        if hub is not None:
            copy = await cleanup_outcome(self._write_back.clean_up(hub, name, namespace))
            _log_if_unreachable(copy, name, "hub")
        if self._claims.enabled:
            claim = await cleanup_outcome(self._release_claim(cell, instance))
            _log_if_unreachable(claim, name, "project")
        release = decide_release(hub=copy.contact, project=claim.contact)
        await patch.release_finalizer(cell.client, compute.INSTANCES, instance, *release.released)
        for outcome in (copy, claim):
            if outcome.refusal is not None:
                raise outcome.refusal

    async def _release_claim(self, cell: Cluster, instance: Object) -> PlaneReachability:
        project_namespace = project_namespace_of(cell, instance.namespace)
        plane = self._claims.plane_of(project_namespace)
        if project_namespace is None or plane is None:
            # A leaked claim is better than an Instance that stays Terminating forever.
            log.error(
                "quota claim leaked: the project of the Instance is unknown",
                namespace=instance.namespace,
                name=instance.name,
            )
            await self._signals.record_orphaned_claim(cell, instance)
            return PlaneReachability.UNKNOWN
        deployment = instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
        wanting = find_deployment(cell, deployment, instance.namespace)
        if any(is_claim_kept(view, wanting) for view in views((instance,), compute.Instance)):
            return PlaneReachability.ANSWERED
        name = names.claim_name(instance.name)
        claims = quota.RESOURCE_CLAIMS
        claim = await find_live(plane.client, claims, name, project_namespace.namespace)
        if claim is not None and self._claims.is_ours(claim, instance.namespace):
            await patch.delete_if_present(plane.client, claims, claim)
        return PlaneReachability.ANSWERED


def find_deployment(cell: Cluster, name: str, namespace: str) -> compute.WorkloadDeployment | None:
    """None also for one that cannot be read: it claims again when it can."""
    found = cell.cache(compute.WORKLOAD_DEPLOYMENTS).get(name, namespace) if name else None
    return next(iter(views((found,) if found else (), compute.WorkloadDeployment)), None)


async def cleanup_outcome(call: Awaitable[PlaneReachability]) -> CleanupOutcome:
    """Await the call; a plane that is unreachable or refuses is an outcome, not an exception."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return CleanupOutcome(await call)
    except (errors.TransportFailure, TimeoutError) as error:
        return CleanupOutcome(classify_failure(None), str(error) or "no answer in time")
    except errors.ClientError as error:
        # A response other than an API Status proves nothing: a proxy may have sent it.
        code = error.code if isinstance(error, errors.StatusError) else 0
        return CleanupOutcome(classify_failure(code), refusal=error)


def _log_if_unreachable(outcome: CleanupOutcome, name: str, plane: str) -> None:
    if outcome.contact is PlaneReachability.UNREACHABLE:
        log.warning(
            "finalizer released although its plane is unreachable",
            name=name,
            plane=plane,
            reason=outcome.reason,
        )
