"""The Instance's claim in its project, and the condition that follows from it.

A claim belongs to an ordinal of a deployment at a size: a replacement adopts the claim of its
predecessor. It is created once and never changed. Milo never evaluates a denied claim again,
and it may hold part of its request; so it is deleted at once, and created again when that can
help (:mod:`.retries`).

A grant is sticky: no error and no missing claim revokes it, and a missing claim is created
again. Errors are reported only on Instances that still have the gate.
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
from datum_compute.runtime.live_reads import find_live
from datum_compute.runtime.writes import patch

log = get_logger(__name__)

CLAIMS_BY_INSTANCE_NAMESPACE = "instance-namespace"

CALL_SECONDS = 5.0
"""The deadline of all calls to a project in one reconcile."""

FRESH_SECONDS = 1.0
"""How long the status of a new Instance waits for the result of its new claim. Most results
come within this time, and then one write replaces two on every plane."""

RESTORE_SECONDS = 60.0
"""How long until the claim of a granted Instance is created again after a failure."""


@dataclass(frozen=True, slots=True)
class QuotaEvaluation:
    verdict: ConditionState
    due_in: float = 0.0
    """Seconds for which the result of a new claim is worth waiting for."""
    requeue_after: float | None = None
    """Seconds until the claim must be checked again."""


class ClaimManager:
    def __init__(self, projects: Fleet | None, env: Environment, cluster_name: str) -> None:
        self._projects = projects
        self._env = env
        self.cluster_name = cluster_name
        self._retries = Retries(env)
        self._claimed_at: dict[str, float] = {}  # by Instance uid, while the result is due
        self._claimed: dict[str, None] = {}  # uids of Instances whose claim was created for them

    @property
    def enabled(self) -> bool:
        return self._projects is not None

    @property
    def selector(self) -> str:
        return f"{compute.LABEL_SOURCE_CLUSTER}={self.cluster_name}"

    def claims_in(self, plane: Cluster) -> Cache:
        """The claims of this cell in a project."""
        return plane.cache(quota.RESOURCE_CLAIMS, label_selector=self.selector)

    def plane_of(self, project_namespace: ProjectNamespace | None) -> Cluster | None:
        if self._projects is None or project_namespace is None:
            return None
        return self._projects.get(project_namespace.project)

    def find_claim_for(self, namespace: str, name: str) -> tuple[Cluster | None, Object | None]:
        """The cached claim of this name for an Instance of a namespace of the cell, in whatever
        project it is."""
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
        """The wanted QuotaGranted. Never raises for an unreachable project: that is a condition
        to report, and the requeue tries again."""
        view = instance.view(compute.Instance)
        previous = conditions.find(view.status.conditions, compute.CONDITION_QUOTA_GRANTED)
        held = _as_verdict(previous)
        if not self.enabled:
            return QuotaEvaluation(held if held.status == conditions.TRUE else decisions.DISABLED)
        project_namespace = project_namespace_of(cell, instance.namespace)
        plane = self.plane_of(project_namespace)
        if project_namespace is None or plane is None:
            return QuotaEvaluation(held)  # its labels or its project have not arrived yet
        case = WantedClaim(
            plane,
            project_namespace,
            names.claim_name(instance.name),
            decisions.decide_size(view.spec),
        )
        if held.status == conditions.TRUE:
            return QuotaEvaluation(held, requeue_after=await self._restore(case, instance))
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await self._evaluate_claim(cell, case, instance, previous)
        except (errors.ClientError, TimeoutError) as error:
            return QuotaEvaluation(_failed(held, error, project_namespace))

    async def _evaluate_claim(
        self,
        cell: Cluster,
        case: WantedClaim,
        instance: Object,
        previous: conditions.Condition | None,
    ) -> QuotaEvaluation:
        claim = self._cached(case)
        if claim is not None and (due_in := self._due_in(instance, claim)) > 0:
            return QuotaEvaluation(_as_verdict(previous), due_in=due_in)
        if self._needs_live_read(case, instance, claim):
            claim = await find_live(
                case.plane.client,
                quota.RESOURCE_CLAIMS,
                case.name,
                case.project_namespace.namespace,
            )
        if claim is None:
            if (left := self._retries.retry_delay(instance.metadata.uid)) > 0:
                return QuotaEvaluation(_as_verdict(previous), requeue_after=left)
            denied = _denial(previous)
            if denied and not await self._retries.may_retry(cell, case, instance, denied):
                return QuotaEvaluation(_as_verdict(denied))
            claim = await self._create(case, instance)
            if claim is None:
                self._claimed[instance.metadata.uid] = None
                self._claimed_at[instance.metadata.uid] = asyncio.get_running_loop().time()
                return QuotaEvaluation(_as_verdict(previous), due_in=FRESH_SECONDS)
        if not self.is_ours(claim, instance.namespace):
            return QuotaEvaluation(_taken(claim))
        if claim.metadata.deleting:
            return QuotaEvaluation(_as_verdict(previous))
        view = claim.view(quota.ResourceClaim)
        if not decisions.claim_fits(view, case.size):
            # The size has changed: the old claim is released before a new one is created.
            await patch.delete_if_present(case.plane.client, quota.RESOURCE_CLAIMS, claim)
            return QuotaEvaluation(_as_verdict(previous))
        verdict = decisions.decide_quota(view, previous)
        if _is_refused(view):
            await patch.delete_if_present(case.plane.client, quota.RESOURCE_CLAIMS, claim)
        return QuotaEvaluation(verdict)

    def _needs_live_read(self, case: WantedClaim, instance: Object, claim: Object | None) -> bool:
        """Whether the cached claim must be read live. An open one may have a result that the
        watch missed; one created for a predecessor may be deleted, and its quota granted to
        another, while the watch is down."""
        if not self.claims_in(case.plane).synced:
            return True
        if claim is None:
            return False
        return _is_open(claim) or instance.metadata.uid not in self._claimed

    def _due_in(self, instance: Object, claim: Object) -> float:
        """Seconds for which the result of a new claim is worth waiting for. Lost on restart:
        then the Instance is reported as pending."""
        claimed_at = self._claimed_at.get(instance.metadata.uid)
        if claimed_at is None:
            return 0.0
        left = claimed_at + FRESH_SECONDS - asyncio.get_running_loop().time()
        if left > 0 and _is_open(claim):
            return left
        del self._claimed_at[instance.metadata.uid]
        return 0.0

    def forget(self, uid: str) -> None:
        self._claimed_at.pop(uid, None)
        self._claimed.pop(uid, None)
        self._retries.forget(uid)

    def _cached(self, case: WantedClaim) -> Object | None:
        return self.claims_in(case.plane).get(case.name, case.project_namespace.namespace)

    async def _create(self, case: WantedClaim, instance: Object) -> Object | None:
        """None when it was created; otherwise the existing claim of its name."""
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
            return await find_live(
                case.plane.client,
                quota.RESOURCE_CLAIMS,
                case.name,
                case.project_namespace.namespace,
            )
        return None

    async def _restore(self, case: WantedClaim, instance: Object) -> float | None:
        """Create the missing claim of a granted Instance again; seconds until a retry where that
        has failed."""
        if not self.claims_in(case.plane).synced:
            return RESTORE_SECONDS
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await self._restore_claim(case, instance)
        except (errors.ClientError, TimeoutError) as error:
            log.info(
                "the claim of a granted Instance could not be restored",
                name=instance.name,
                reason=str(error),
            )
            return RESTORE_SECONDS

    async def _restore_claim(self, case: WantedClaim, instance: Object) -> float | None:
        claim = self._cached(case)
        if claim is None:
            if (left := self._retries.retry_delay(instance.metadata.uid)) > 0:
                return left
            await self._create(case, instance)
            return None  # its result triggers the next reconcile
        view = claim.view(quota.ResourceClaim)
        ours = self.is_ours(claim, instance.namespace) and not claim.metadata.deleting
        if ours and _is_refused(view):
            # The quota was granted to others meanwhile. A denial is final; once there is room
            # the claim is deleted, which triggers the reconcile that creates it again.
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
    """Whether it has no result yet: a new claim is False until it is evaluated."""
    view = claim.view(quota.ResourceClaim)
    granted = conditions.find(view.status.conditions, quota.CONDITION_GRANTED)
    return granted is None or granted.reason == quota.REASON_PENDING_EVALUATION


def _is_refused(claim: quota.ResourceClaim) -> bool:
    """Whether it is denied, which is final."""
    granted = conditions.find(claim.status.conditions, quota.CONDITION_GRANTED)
    exceeded = granted is not None and granted.reason == quota.REASON_QUOTA_EXCEEDED
    return exceeded or decisions.is_claim_invalid(claim)


def _taken(claim: Object) -> ConditionState:
    holder = claim.metadata.labels.get(compute.LABEL_SOURCE_CLUSTER, "another cell")
    return ConditionState(
        conditions.FALSE,
        compute.REASON_QUOTA_MISCONFIGURED,
        f"Claim {claim.namespace}/{claim.name} belongs to {holder}",
    )


def _failed(held: ConditionState, error: Exception, where: ProjectNamespace) -> ConditionState:
    if decisions.is_denied(held):
        return held  # only the result of a new claim changes a denial
    code = error.code if isinstance(error, errors.StatusError) else None
    if isinstance(error, errors.NotServed):
        code = None  # not served: no evidence about this namespace
    reason = decisions.create_failure_reason(code, namespace=where.namespace)
    text = str(error) or "no answer in time"
    return ConditionState(
        conditions.FALSE, reason, f"Quota of project {where.project}: {text}"[:1024]
    )
