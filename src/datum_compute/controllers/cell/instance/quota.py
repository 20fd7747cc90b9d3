"""The Instance's ResourceClaim in its project, and the QuotaGranted that follows from it.

A claim belongs to an ordinal of a deployment and to a size: a replacement of the same size uses
the claim of its predecessor. A claim is created once; only what another writer changed of it is
written again. Milo never evaluates a denied claim again, and a denied claim may still hold part of
its request; so it is deleted at once, and created again when that can succeed (:mod:`.retries`).

A grant is sticky: no error and no missing claim revokes it, and a missing claim is created
again. Errors are reported only on Instances that have no grant yet.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from datum_compute.api import conditions
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.conditions import ConditionState
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.client.streams import Deadline
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
from datum_compute.runtime.writes.spec_copies import restoring_patch

log = get_logger(__name__)

CLAIMS_BY_DEPLOYMENT = "instance-deployment"
"""Claims by the namespace of their Instance in the cell and the name of its deployment."""

CALL_SECONDS = 5.0
"""The deadline for all calls to a project in one reconcile."""

CLAIM_RESULT_SECONDS = 1.0
"""How long the status of a new Instance waits for the result of its new claim. Most results
arrive within this time, and one status write per plane then replaces two."""

LABEL_SECONDS = 15.0
"""How long a new Instance waits for the labels that name its project. They come with the namespace;
Karmada restores lost ones within 10 seconds."""

RESTORE_SECONDS = 60.0
"""Seconds until another attempt to create the missing claim of a granted Instance."""


@dataclass(frozen=True, slots=True)
class QuotaEvaluation:
    granted: ConditionState
    due_in: float = 0.0
    """Seconds to wait for the result of a new claim before anything is reported."""
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
        self._correct_claims: dict[str, tuple[Object, WantedClaim]] = {}
        """By Instance uid: the claim as it was last found correct."""

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
        """The cached claim of this name for an Instance of this namespace of the cell, and its
        project: for a namespace whose project is unknown."""
        key = _deployment_key(namespace, name)
        for plane in self._projects.clusters() if self._projects is not None else []:
            for claim in self.claims_in(plane).by_index(CLAIMS_BY_DEPLOYMENT, key):
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
        """The QuotaGranted to report. An unreachable project raises nothing: the condition says
        so, and the requeue tries again."""
        view = instance.view(compute.Instance)
        previous = conditions.find(view.status.conditions, compute.CONDITION_QUOTA_GRANTED)
        held = _as_reported(previous)
        if not self.enabled:
            return QuotaEvaluation(held if held.status == conditions.TRUE else decisions.DISABLED)
        project_namespace = project_namespace_of(cell, instance.namespace)
        if project_namespace is None:
            return QuotaEvaluation(self._unresolved(instance, held))
        plane = self.plane_of(project_namespace)
        if plane is None:
            return QuotaEvaluation(held)  # the project is not engaged
        case = WantedClaim(
            plane,
            project_namespace,
            names.claim_name(instance.name),
            decisions.decide_size(view.spec),
        )
        if held.status == conditions.TRUE:
            return await self._restore(case, instance, held)
        try:
            with Deadline(CALL_SECONDS):
                return await self._evaluate_claim(cell, case, instance, previous)
        except (errors.ClientError, TimeoutError) as error:
            return QuotaEvaluation(_failed(held, error, project_namespace))

    def _unresolved(self, instance: Object, held: ConditionState) -> ConditionState:
        """What to report while the labels of the namespace do not name a project."""
        if held.status == conditions.TRUE or decisions.is_denied(held):
            return held
        created = instance.metadata.creation_timestamp
        if created is None or (self._env.now() - created).total_seconds() < LABEL_SECONDS:
            return held
        labels = f"{compute.LABEL_UPSTREAM_CLUSTER_NAME} and {compute.LABEL_UPSTREAM_NAMESPACE}"
        return ConditionState(
            conditions.FALSE,
            compute.REASON_QUOTA_PROJECT_ID_UNRESOLVABLE,
            f"Namespace {instance.namespace} of the cell names no project: its labels {labels}"
            " are missing or cannot be read",
        )

    async def _evaluate_claim(
        self,
        cell: Cluster,
        case: WantedClaim,
        instance: Object,
        previous: conditions.Condition | None,
    ) -> QuotaEvaluation:
        claim = self._cached(case)
        if claim is not None and (due_in := self._due_in(instance, claim)) > 0:
            return QuotaEvaluation(_as_reported(previous), due_in=due_in)
        if self._needs_live_read(case, instance, claim):
            claim = await find_live(
                case.plane.client,
                quota.RESOURCE_CLAIMS,
                case.name,
                case.project_namespace.namespace,
            )
        if claim is None:
            if (left := self._retries.retry_delay(instance.metadata.uid)) > 0:
                return QuotaEvaluation(_as_reported(previous), requeue_after=left)
            denied = _denial(previous)
            if denied and not await self._retries.may_retry(cell, case, instance, denied):
                return QuotaEvaluation(_as_reported(denied))
            claim = await self._create(case, instance)
            if claim is None:
                self._claimed[instance.metadata.uid] = None
                self._claimed_at[instance.metadata.uid] = asyncio.get_running_loop().time()
                return QuotaEvaluation(_as_reported(previous), due_in=CLAIM_RESULT_SECONDS)
        if not self.is_ours(claim, instance.namespace):
            return QuotaEvaluation(_taken(claim))
        if claim.metadata.deleting:
            return QuotaEvaluation(_as_reported(previous))
        view = claim.view(quota.ResourceClaim)
        if not decisions.claim_fits(view, case.size):
            # The size has changed: the old claim is released before a new one is created.
            await patch.delete_if_present(case.plane.client, quota.RESOURCE_CLAIMS, claim)
            return QuotaEvaluation(_as_reported(previous))
        claim = await self._correct(case, instance, claim)
        granted = decisions.decide_quota(view, previous)
        if _is_denied(view):
            await patch.delete_if_present(case.plane.client, quota.RESOURCE_CLAIMS, claim)
        return QuotaEvaluation(granted)

    def _needs_live_read(self, case: WantedClaim, instance: Object, claim: Object | None) -> bool:
        """Whether the cached claim must be read live. An open claim may have a result that the
        watch missed; a predecessor's claim may be deleted, and its quota granted to another
        Instance, while the watch is down."""
        if not self.claims_in(case.plane).synced:
            return True
        if claim is None:
            return False
        return _is_open(claim) or instance.metadata.uid not in self._claimed

    def _due_in(self, instance: Object, claim: Object) -> float:
        """Seconds left to wait for the result of a new claim. Lost on restart: the Instance is
        then reported as pending."""
        claimed_at = self._claimed_at.get(instance.metadata.uid)
        if claimed_at is None:
            return 0.0
        left = claimed_at + CLAIM_RESULT_SECONDS - asyncio.get_running_loop().time()
        if left > 0 and _is_open(claim):
            return left
        del self._claimed_at[instance.metadata.uid]
        return 0.0

    def forget(self, uid: str) -> None:
        self._claimed_at.pop(uid, None)
        self._claimed.pop(uid, None)
        self._correct_claims.pop(uid, None)
        self._retries.forget(uid)

    def _cached(self, case: WantedClaim) -> Object | None:
        return self.claims_in(case.plane).get(case.name, case.project_namespace.namespace)

    async def _create(self, case: WantedClaim, instance: Object) -> Object | None:
        """Create the claim and return None, or return the existing claim of its name."""
        body = self._build(case, instance)
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

    def _build(self, case: WantedClaim, instance: Object) -> dict[str, Any]:
        return decisions.build_claim(
            instance_name=instance.name,
            instance_namespace=instance.namespace,
            claim_namespace=case.project_namespace.namespace,
            project=case.project_namespace.project,
            source_cluster=self.cluster_name,
            size=case.size,
        )

    async def _correct(self, case: WantedClaim, instance: Object, claim: Object) -> Object:
        """The claim with its labels and its spec as created: without them no cell releases it, or
        its project is charged for something else."""
        # A cache keeps the very object until another version comes.
        known = self._correct_claims.get(instance.metadata.uid)
        if known is not None and known[0] is claim and known[1] == case:
            return claim
        wanted = self._build(case, instance)
        corrected = await patch.ensure_metadata(
            case.plane.client,
            quota.RESOURCE_CLAIMS,
            claim,
            labels=wanted["metadata"]["labels"],
            spec=restoring_patch(patch.values(claim.spec), wanted["spec"]),
        )
        if corrected is claim:
            self._correct_claims[instance.metadata.uid] = (claim, case)
        return corrected

    async def _restore(
        self, case: WantedClaim, instance: Object, held: ConditionState
    ) -> QuotaEvaluation:
        """Create or correct the claim of a granted Instance; the grant stays in any case."""
        if not self.claims_in(case.plane).synced:
            return QuotaEvaluation(held, requeue_after=RESTORE_SECONDS)
        try:
            with Deadline(CALL_SECONDS):
                return await self._restore_claim(case, instance, held)
        except (errors.ClientError, TimeoutError) as error:
            log.info(
                "cannot restore the claim of a granted Instance",
                name=instance.name,
                reason=str(error),
            )
            return QuotaEvaluation(held, requeue_after=RESTORE_SECONDS)

    async def _restore_claim(
        self, case: WantedClaim, instance: Object, held: ConditionState
    ) -> QuotaEvaluation:
        claim = self._cached(case)
        if claim is None:
            if (left := self._retries.retry_delay(instance.metadata.uid)) > 0:
                return QuotaEvaluation(held, requeue_after=left)
            claim = await self._create(case, instance)
        if claim is None or claim.metadata.deleting:
            return QuotaEvaluation(held)  # its result, or its deletion, triggers the next reconcile
        if not self.is_ours(claim, instance.namespace):
            taken = held._replace(message=_taken(claim).message)
            return QuotaEvaluation(taken, requeue_after=RESTORE_SECONDS)
        claim = await self._correct(case, instance, claim)
        view = claim.view(quota.ResourceClaim)
        if _is_denied(view):
            # The quota was granted to others meanwhile. A denial is final; once there is room
            # the claim is deleted, which triggers the reconcile that creates it again.
            if self._retries.may_replace(case, instance.metadata.uid, view):
                await patch.delete_if_present(case.plane.client, quota.RESOURCE_CLAIMS, claim)
            return QuotaEvaluation(held, requeue_after=RESTORE_SECONDS)
        granted = decisions.decide_quota(view, None)
        return QuotaEvaluation(granted if granted.status == conditions.TRUE else held)


def deployment_keys_of_claim(claim: Object) -> list[str]:
    namespace = claim.metadata.labels.get(compute.LABEL_INSTANCE_NAMESPACE)
    return [_deployment_key(namespace, claim.name)] if namespace else []


def _deployment_key(namespace: str, claim: str) -> str:
    deployment, _, _ = names.instance_of_claim(claim).rpartition("-")
    return f"{namespace}/{deployment}"


def _as_reported(previous: conditions.Condition | None) -> ConditionState:
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


def _is_denied(claim: quota.ResourceClaim) -> bool:
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
        code = None  # the kind is not served, which says nothing about this namespace
    reason = decisions.create_failure_reason(code, namespace=where.namespace)
    text = str(error) or "no answer in time"
    return ConditionState(
        conditions.FALSE, reason, f"Quota of project {where.project}: {text}"[:1024]
    )
