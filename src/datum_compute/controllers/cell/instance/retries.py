"""When a denied claim is created again.

Milo never evaluates a denied claim again, so another attempt deletes and creates it. Attempts at
a fixed interval would be polling with writes. So a claim over quota waits until the buckets have
room for it and no other denied Instance is ahead of it. An invalid claim waits for another limit,
other grants or a new bucket: a change of usage alone makes no claim valid.

Buckets are read from the cache while it is current, and live otherwise. Where neither works, the
claim is created again after a minute or two.
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
from datum_compute.runtime.cache.quarantine import views
from datum_compute.runtime.cluster import Cluster

UNREADABLE_SECONDS = 60.0
"""The shortest wait after a denial while buckets cannot be read; a random part is added."""

MIN_INTERVAL_SECONDS = 1.0
"""The shortest time between two claims of one Instance. Without it, stale buckets would let a
denied claim be created and denied in a tight loop."""

Buckets = Sequence[quota.AllowanceBucket]


@dataclass(frozen=True, slots=True)
class WantedClaim:
    """The claim that an Instance needs: where, under which name, and its size."""

    plane: Cluster
    project_namespace: ProjectNamespace
    name: str
    size: Size


class Retries:
    """Kept in memory: after a restart an invalid claim is created once more."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._unreadable_until: dict[str, float] = {}
        self._budget_at_claim: dict[str, Budget] = {}  # by Instance uid
        self._claimed_at: dict[str, float] = {}

    def record_attempt(self, case: WantedClaim, uid: str) -> None:
        """Call before a claim is created for the Instance of this uid."""
        self._budget_at_claim[uid] = _budget(case, _cached(case))
        self._claimed_at[uid] = asyncio.get_running_loop().time()

    def retry_delay(self, uid: str) -> float:
        """Seconds until another claim may be created for the Instance of this uid."""
        claimed_at = self._claimed_at.get(uid)
        if claimed_at is None:
            return 0.0
        return max(0.0, claimed_at + MIN_INTERVAL_SECONDS - asyncio.get_running_loop().time())

    def forget(self, uid: str) -> None:
        self._claimed_at.pop(uid, None)
        self._unreadable_until.pop(uid, None)
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
        denied_views = views(waiting, compute.Instance)
        return may_claim_next(
            instance.view(compute.Instance),
            [each for each in denied_views if not _is_invalid(each)],
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
        until = self._unreadable_until.get(uid)
        if until is None:
            chance = self._env.random("controllers.instance.quota").random()
            self._unreadable_until[uid] = now + UNREADABLE_SECONDS * (1 + chance)
            return False
        if now < until:
            return False
        del self._unreadable_until[uid]
        return True


def _budget(case: WantedClaim, buckets: Buckets) -> Budget:
    return decisions.budget_for(case.size, buckets, project=case.project_namespace.project)


def _cached(case: WantedClaim) -> list[quota.AllowanceBucket]:
    cache = case.plane.cache(quota.ALLOWANCE_BUCKETS)
    return views(cache.list(), quota.AllowanceBucket)


async def _read(case: WantedClaim) -> Buckets | None:
    """The buckets of the project, or None where they cannot be read."""
    cache = case.plane.cache(quota.ALLOWANCE_BUCKETS)
    if cache.synced and cache.state is CacheState.CURRENT:
        return _cached(case)
    if cache.state is CacheState.NOT_SERVED:
        return None
    try:
        live = await case.plane.client.list(quota.ALLOWANCE_BUCKETS)
    except errors.ClientError:
        return None
    return views(live.items, quota.AllowanceBucket)


def _is_invalid(instance: compute.Instance) -> bool:
    granted = conditions.find(instance.status.conditions, compute.CONDITION_QUOTA_GRANTED)
    return granted is not None and granted.reason == compute.REASON_VALIDATION_FAILED
