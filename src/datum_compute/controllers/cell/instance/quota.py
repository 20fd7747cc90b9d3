"""The Instance's claim in its project, and what its answer means.

A claim belongs to an ordinal of a deployment at a size: a replacement finds the claim of
its predecessor and takes it over. It is made once and never changed. A claim that was
denied is never looked at again by whoever denied it, and may hold part of what it asked
for; so it is released at once, and made anew when that can help (:mod:`.retries`).

A grant is sticky. Once an Instance has it, no error and no missing claim takes it away; the
claim is put back quietly. Errors are shown only on Instances that still wait at the gate.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from datum_compute.api import conditions
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.controllers.cell.instance.retries import Retries, WantedClaim
from datum_compute.controllers.planes import ProjectNamespace, project_namespace_of
from datum_compute.decisions import quota as decisions
from datum_compute.decisions.connectivity import is_own_claim
from datum_compute.env import Environment
from datum_compute.log import get_logger
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.writes import patch

log = get_logger(__name__)

CLAIMS_BY_INSTANCE_NAMESPACE = "instance-namespace"

CALL_SECONDS = 5.0
"""How long a project may take to answer before the pass goes on without it."""

FRESH_SECONDS = 1.0
"""How long the report on a new Instance waits for the answer to the claim just made. Most
answers come within this time, and then one report takes the place of two on every plane."""

RESTORE_SECONDS = 60.0
"""How long a granted Instance whose claim could not be put back waits before another try."""


@dataclass(frozen=True, slots=True)
class QuotaEvaluation:
    verdict: ConditionState
    due_in: float = 0.0
    """Seconds for which the answer to a claim just made is worth waiting for."""
    requeue_after: float | None = None
    """Seconds until the claim needs another look, whatever happens meanwhile."""


class ClaimManager:
    def __init__(self, projects: Fleet | None, env: Environment, cluster_name: str) -> None:
        self._projects = projects
        self._env = env
        self.cluster_name = cluster_name
        self._retries = Retries(env)
        self._asked_at: dict[str, float] = {}  # when each open claim of ours was made
        self._made: dict[str, None] = {}  # Instances, by uid, whose claim was made for them

    @property
    def enabled(self) -> bool:
        return self._projects is not None

    @property
    def selector(self) -> str:
        return f"{compute.LABEL_SOURCE_CLUSTER}={self.cluster_name}"

    def claims_in(self, plane: Cluster) -> Cache:
        """This cell's claims in a project, and no other's."""
        return plane.cache(quota.RESOURCE_CLAIMS, label_selector=self.selector)

    def plane_of(self, tenant: ProjectNamespace | None) -> Cluster | None:
        if self._projects is None or tenant is None:
            return None
        return self._projects.get(tenant.project)

    def find_claim_for(self, namespace: str, name: str) -> tuple[Cluster | None, Object | None]:
        """The claim of this name for an Instance of a namespace of the cell, as the watches
        have seen it, in whatever project it lies."""
        for plane in self._projects.clusters() if self._projects is not None else []:
            for claim in self.claims_in(plane).by_index(CLAIMS_BY_INSTANCE_NAMESPACE, namespace):
                if claim.name == name:
                    return plane, claim
        return None, None

    def is_ours(self, claim: Object, instance_namespace: str) -> bool:
        return is_own_claim(
            claim.metadata.labels,
            source_cluster=self.cluster_name,
            namespace=instance_namespace,
        )

    async def evaluate(self, cell: Cluster, instance: Object) -> QuotaEvaluation:
        """What QuotaGranted is to say now. Never raises for a project that does not answer:
        that is an answer to show, and the requeue asks again."""
        view = instance.view(compute.Instance)
        previous = conditions.find(view.status.conditions, compute.CONDITION_QUOTA_GRANTED)
        held = _as_verdict(previous)
        if not self.enabled:
            return QuotaEvaluation(held if held.status == conditions.TRUE else decisions.DISABLED)
        tenant = project_namespace_of(cell, instance.namespace)
        plane = self.plane_of(tenant)
        if tenant is None or plane is None:
            return QuotaEvaluation(held)  # not yet: its labels or its project are on their way
        case = WantedClaim(
            plane, tenant, names.claim_name(instance.name), decisions.decide_size(view.spec)
        )
        if held.status == conditions.TRUE:
            return QuotaEvaluation(held, requeue_after=await self._restore(case, instance))
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await self._ask(cell, case, instance, previous)
        except (errors.ClientError, TimeoutError) as error:
            return QuotaEvaluation(_failed(held, error, tenant))

    async def _ask(
        self,
        cell: Cluster,
        case: WantedClaim,
        instance: Object,
        previous: conditions.Condition | None,
    ) -> QuotaEvaluation:
        claim = self._cached(case)
        if claim is not None and (due_in := self._due_in(instance, claim)) > 0:
            return QuotaEvaluation(_as_verdict(previous), due_in=due_in)
        if self._is_hearsay(case, instance, claim):
            claim = await self.find_live(case.plane, case.name, case.project_namespace.namespace)
        if claim is None:
            if (left := self._retries.retry_delay(instance.metadata.uid)) > 0:
                return QuotaEvaluation(_as_verdict(previous), requeue_after=left)
            denied = _denial(previous)
            if denied and not await self._retries.may_retry(cell, case, instance, denied):
                return QuotaEvaluation(_as_verdict(denied))
            claim = await self._create(case, instance)
            if claim is None:
                self._made[instance.metadata.uid] = None
                self._asked_at[instance.metadata.uid] = asyncio.get_running_loop().time()
                return QuotaEvaluation(_as_verdict(previous), due_in=FRESH_SECONDS)
        if not self.is_ours(claim, instance.namespace):
            return QuotaEvaluation(_taken(claim))
        if claim.metadata.deleting:
            return QuotaEvaluation(_as_verdict(previous))
        view = claim.view(quota.ResourceClaim)
        if not decisions.claim_fits(view, case.size):
            # The size has changed: what was set aside goes back before more is asked for.
            await patch.delete_if_present(case.plane.client, quota.RESOURCE_CLAIMS, claim)
            return QuotaEvaluation(_as_verdict(previous))
        verdict = decisions.decide_quota(view, previous)
        if _is_refused(view):
            await patch.delete_if_present(case.plane.client, quota.RESOURCE_CLAIMS, claim)
        return QuotaEvaluation(verdict)

    def _is_hearsay(self, case: WantedClaim, instance: Object, claim: Object | None) -> bool:
        """Whether what the cache says of a claim is to be heard from the project itself. One
        still open may have been answered unheard; one made for a predecessor may be gone, and
        given to others, while the watch is away."""
        if not self.claims_in(case.plane).synced:
            return True
        if claim is None:
            return False
        return _is_open(claim) or instance.metadata.uid not in self._made

    def _due_in(self, instance: Object, claim: Object) -> float:
        """Whether a claim we have just made is still being looked at. Not remembered over a
        restart: then the Instance is simply reported as pending."""
        asked_at = self._asked_at.get(instance.metadata.uid)
        if asked_at is None:
            return 0.0
        left = asked_at + FRESH_SECONDS - asyncio.get_running_loop().time()
        if left > 0 and _is_open(claim):
            return left
        del self._asked_at[instance.metadata.uid]
        return 0.0

    def forget(self, uid: str) -> None:
        self._asked_at.pop(uid, None)
        self._made.pop(uid, None)
        self._retries.forget(uid)

    def _cached(self, case: WantedClaim) -> Object | None:
        return self.claims_in(case.plane).get(case.name, case.project_namespace.namespace)

    async def find_live(self, plane: Cluster, name: str, namespace: str) -> Object | None:
        try:
            return await plane.client.get(quota.RESOURCE_CLAIMS, name, namespace)
        except errors.NotFound:
            return None

    async def _create(self, case: WantedClaim, instance: Object) -> Object | None:
        """None when it was made just now; otherwise the one that stands in the way."""
        body = decisions.build_claim(
            instance_name=instance.name,
            instance_namespace=instance.namespace,
            claim_namespace=case.project_namespace.namespace,
            project=case.project_namespace.project,
            source_cluster=self.cluster_name,
            size=case.size,
        )
        self._retries.record_attempt(case, instance.metadata.uid)
        try:
            await case.plane.client.create(
                quota.RESOURCE_CLAIMS, body, case.project_namespace.namespace
            )
        except errors.AlreadyExists:
            return await self.find_live(case.plane, case.name, case.project_namespace.namespace)
        return None

    async def _restore(self, case: WantedClaim, instance: Object) -> float | None:
        """Put back the claim of an Instance that runs on its grant; seconds until another
        look where that has not been possible."""
        if not self.claims_in(case.plane).synced:
            return RESTORE_SECONDS
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await self._put_back(case, instance)
        except (errors.ClientError, TimeoutError) as error:
            log.info(
                "the claim of a granted Instance could not be put back",
                name=instance.name,
                reason=str(error),
            )
            return RESTORE_SECONDS

    async def _put_back(self, case: WantedClaim, instance: Object) -> float | None:
        claim = self._cached(case)
        if claim is None:
            if (left := self._retries.retry_delay(instance.metadata.uid)) > 0:
                return left
            await self._create(case, instance)
            return None  # its answer brings the next pass
        view = claim.view(quota.ResourceClaim)
        ours = self.is_ours(claim, instance.namespace) and not claim.metadata.deleting
        if ours and _is_refused(view):
            # Others took the room meanwhile. A denial is final; once there is room again the
            # claim goes, and its end brings the pass that makes it anew.
            if self._retries.may_replace(case, instance.metadata.uid, view):
                await patch.delete_if_present(case.plane.client, quota.RESOURCE_CLAIMS, claim)
            return RESTORE_SECONDS
        return None


def _as_verdict(previous: conditions.Condition | None) -> ConditionState:
    if previous is None:
        return decisions.PENDING
    return ConditionState.of(previous)


def _denial(previous: conditions.Condition | None) -> conditions.Condition | None:
    return previous if previous is not None and decisions.is_denied(previous) else None


def _is_open(claim: Object) -> bool:
    """Whether nobody has answered yet: a new claim says no, for want of an answer."""
    view = claim.view(quota.ResourceClaim)
    granted = conditions.find(view.status.conditions, quota.CONDITION_GRANTED)
    return granted is None or granted.reason == quota.REASON_PENDING_EVALUATION


def _is_refused(claim: quota.ResourceClaim) -> bool:
    """Whether the answer is no, and final."""
    granted = conditions.find(claim.status.conditions, quota.CONDITION_GRANTED)
    exceeded = granted is not None and granted.reason == quota.REASON_QUOTA_EXCEEDED
    return exceeded or decisions.is_claim_invalid(claim)


def _taken(claim: Object) -> ConditionState:
    holder = claim.metadata.labels.get(compute.LABEL_SOURCE_CLUSTER, "somebody else")
    return ConditionState(
        conditions.FALSE,
        compute.REASON_QUOTA_MISCONFIGURED,
        f"Claim {claim.namespace}/{claim.name} belongs to {holder}",
    )


def _failed(held: ConditionState, error: Exception, tenant: ProjectNamespace) -> ConditionState:
    if decisions.is_denied(held):
        return held  # only the answer to a new claim changes a denial
    code = error.code if isinstance(error, errors.StatusError) else None
    if isinstance(error, errors.NotServed):
        code = None  # a plane without quota kinds says nothing about this namespace
    reason = decisions.create_failure_reason(code, namespace=tenant.namespace)
    text = str(error) or "no answer in time"
    return ConditionState(
        conditions.FALSE, reason, f"Quota of project {tenant.project}: {text}"[:1024]
    )
