"""When a denied claim is created again.

Milo never evaluates a denied claim again, so it is deleted and created anew; but creating,
denying and deleting in a circle would be polling with writes. So a claim over quota waits
until the buckets have room for it, in order with others. An invalid claim waits until its
buckets change otherwise: another limit, other grants, a new bucket. Usage by others makes no
claim valid.

Buckets are read from the cache while it is current, and live otherwise. Where neither works,
the claim is created again blindly, and seldom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from datum_compute.api import conditions, core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.controllers.cell.instance import denials
from datum_compute.controllers.planes import ProjectNamespace
from datum_compute.decisions import quota as decisions
from datum_compute.decisions.claim_order import may_claim_next
from datum_compute.decisions.quota import Budget, Size
from datum_compute.env import Environment
from datum_compute.runtime.cache.cache import CacheState
from datum_compute.runtime.cluster import Cluster

BLIND_SECONDS = 60.0
"""The shortest wait after a denial where buckets cannot be read."""

REST_SECONDS = 1.0
"""The shortest time between two claims of one Instance. Buckets may be stale; without it a
denied claim would be created again at once, over and over."""

Buckets = Sequence[quota.AllowanceBucket]


@dataclass(frozen=True, slots=True)
class WantedClaim:
    """One Instance's claim: its place and its size."""

    plane: Cluster
    project_namespace: ProjectNamespace
    name: str
    size: Size


class Retries:
    """Kept in memory: after a restart an invalid claim is created once more."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._blind_until: dict[str, float] = {}
        self._budget_at_claim: dict[str, Budget] = {}  # by Instance uid
        self._claimed_at: dict[str, float] = {}

    def record_attempt(self, case: WantedClaim, uid: str) -> None:
        """Before a claim is created for the Instance of this uid."""
        self._budget_at_claim[uid] = _budget(case, _cached(case))
        self._claimed_at[uid] = asyncio.get_running_loop().time()

    def retry_delay(self, uid: str) -> float:
        """Seconds until another claim may be created for the Instance of this uid."""
        claimed_at = self._claimed_at.get(uid)
        if claimed_at is None:
            return 0.0
        return max(0.0, claimed_at + REST_SECONDS - asyncio.get_running_loop().time())

    def forget(self, uid: str) -> None:
        self._claimed_at.pop(uid, None)
        self._blind_until.pop(uid, None)
        self._budget_at_claim.pop(uid, None)

    async def may_retry(
        self, cell: Cluster, case: WantedClaim, instance: Object, denied: conditions.Condition
    ) -> bool:
        buckets = await _read(case)
        if buckets is None:
            return self._has_waited(instance.metadata.uid)
        if denied.reason == compute.REASON_VALIDATION_FAILED:
            fits = decisions.has_room(case.size, buckets, project=case.project_namespace.project)
            return fits and self._has_changed(case, instance.metadata.uid, buckets)
        namespaces = [each.name for each in cell.cache(core.NAMESPACES).list()]
        waiting = denials.denied_instances(cell, namespaces, case.project_namespace.project)
        views = [each.view(compute.Instance) for each in waiting]
        return may_claim_next(
            instance.view(compute.Instance),
            [each for each in views if not _is_invalid(each)],
            buckets,
            project=case.project_namespace.project,
        )

    def may_replace(self, case: WantedClaim, uid: str, claim: quota.ResourceClaim) -> bool:
        """Whether the denied claim of a granted Instance should be replaced. It may still hold
        part of its request."""
        if not case.plane.cache(quota.ALLOWANCE_BUCKETS).synced:
            return False
        buckets = _cached(case)
        if decisions.is_claim_invalid(claim) and not self._has_changed(case, uid, buckets):
            return False
        return decisions.has_room_for_denied(claim, buckets, project=case.project_namespace.project)

    def _has_changed(self, case: WantedClaim, uid: str, buckets: Buckets) -> bool:
        return self._budget_at_claim.get(uid) != _budget(case, buckets)

    def _has_waited(self, uid: str) -> bool:
        now = asyncio.get_running_loop().time()
        until = self._blind_until.get(uid)
        if until is None:
            chance = self._env.random("controllers.instance.quota").random()
            self._blind_until[uid] = now + BLIND_SECONDS * (1 + chance)
            return False
        if now < until:
            return False
        del self._blind_until[uid]
        return True


def _budget(case: WantedClaim, buckets: Buckets) -> Budget:
    return decisions.budget_for(case.size, buckets, project=case.project_namespace.project)


def _cached(case: WantedClaim) -> list[quota.AllowanceBucket]:
    cache = case.plane.cache(quota.ALLOWANCE_BUCKETS)
    return [each.view(quota.AllowanceBucket) for each in cache.list()]


async def _read(case: WantedClaim) -> Buckets | None:
    """None where they cannot be read."""
    cache = case.plane.cache(quota.ALLOWANCE_BUCKETS)
    if cache.synced and cache.state is CacheState.CURRENT:
        return _cached(case)
    if cache.state is CacheState.NOT_SERVED:
        return None
    try:
        live = await case.plane.client.list(quota.ALLOWANCE_BUCKETS)
    except errors.ClientError:
        return None
    return [each.view(quota.AllowanceBucket) for each in live.items]


def _is_invalid(instance: compute.Instance) -> bool:
    granted = conditions.find(instance.status.conditions, compute.CONDITION_QUOTA_GRANTED)
    return granted is not None and granted.reason == compute.REASON_VALIDATION_FAILED
