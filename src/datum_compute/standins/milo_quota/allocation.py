"""One pass over a consumer: all pending claims are judged, buckets first, then the claims.

A pass reads the claims that changed since the last one, judges what is pending, writes each
bucket whose numbers changed (that is the reservation) and then each judged claim, with its
allocations and the folded ``Granted`` in one write. Dying in between is harmless: the next
pass adds up what the claims really hold, and judges what is still pending.

Every cell that has claims in a project watches its buckets, to learn of room. That room
grows less with every grant is no news to them: while nothing is refused, a bucket tells it
at once and then at most every half second. More room, another limit and whatever goes with
a refusal is written in the same pass.

The real system has one controller per bucket and another that folds; a claim on three
buckets then takes four writes. The order of the writes, and what each says, is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from datum_compute.api import conditions
from datum_compute.api.conditions import EPOCH, FALSE, TRUE, wire_time
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, Waiting, after
from datum_compute.runtime.writes import patch
from datum_compute.standins.milo_quota import budget
from datum_compute.standins.milo_quota.budget import (
    AllocationDecision,
    ClaimKey,
    Consumer,
    PendingRequest,
)
from datum_compute.standins.milo_quota.ledger import Ledger

T = TypeVar("T")

USAGE_SECONDS = 0.5
"""The shortest time between two reports of a bucket that only say that more is in use."""


def allocation_controller(projects: Fleet, env: Environment) -> Controller:
    reconciler = Allocation(projects, env)
    return Controller(
        "quota-allocation",
        projects,
        reconciler.reconcile,
        watches=[
            Watch(projects, quota.RESOURCE_CLAIMS, reconciler.consumer_of_claim),
            Watch(projects, quota.RESOURCE_GRANTS, consumer_of_grant),
            Watch(projects, quota.ALLOWANCE_BUCKETS, consumer_of_bucket, own_writes=False),
        ],
    )


def consumer_of_grant(project: str, grant: Object) -> Iterable[Request]:
    reference = grant.view(quota.ResourceGrant).spec.consumer_ref
    yield Request(project, reference.kind, reference.name)


def consumer_of_bucket(project: str, bucket: Object) -> Iterable[Request]:
    reference = bucket.view(quota.AllowanceBucket).spec.consumer_ref
    yield Request(project, reference.kind, reference.name)


class Allocation:
    """Requests name a consumer: its kind in place of the namespace."""

    def __init__(self, projects: Fleet, env: Environment) -> None:
        self._projects = projects
        self._env = env
        self._ledgers: dict[tuple[str, Consumer], tuple[Cluster, Ledger]] = {}
        self._told_at: dict[str, float] = {}  # by uid of a bucket: when its usage was last told

    def consumer_of_claim(self, project: str, claim: Object) -> Iterable[Request]:
        consumer = budget.consumer_of(claim.view(quota.ResourceClaim), project)
        # A hint which claim to read again; the pass itself looks only at the cache.
        _, ledger = self._ledgers.get((project, consumer), (None, None))
        if ledger is not None:
            ledger.note((claim.namespace, claim.name))
        yield Request(project, consumer.kind, consumer.name)

    async def reconcile(self, request: Request) -> Result:
        project = self._projects.get(request.cluster)
        if project is None:
            return DONE
        consumer = Consumer(request.namespace, request.name)
        ledger = self._ledger(project, consumer)
        noted = ledger.noted()
        pending = self._read_claims(project, consumer, ledger, noted)
        grants = self._grants_of(project, consumer)
        verdicts = budget.decide_allocations(
            pending, budget.limits_of(grants.values()), ledger.allocated
        )
        due_in = await self._reserve(project, consumer, ledger, grants, verdicts)
        self._env.fault("quota.after-reservation")
        await _all(
            self._answer(project, consumer, claim, verdicts[claim]) for claim in sorted(verdicts)
        )
        for claim, decided in verdicts.items():
            self._hold(project, ledger, claim, decided)
        ledger.done(noted)
        return after(due_in) if due_in > 0 else DONE

    def _ledger(self, project: Cluster, consumer: Consumer) -> Ledger:
        engaged, ledger = self._ledgers.get((project.name, consumer), (None, Ledger()))
        if engaged is not project:
            # New, or engaged anew after changes nobody told us of.
            ledger = Ledger()
            self._ledgers[(project.name, consumer)] = (project, ledger)
            for claim in project.cache(quota.RESOURCE_CLAIMS).list():
                if budget.consumer_of(claim.view(quota.ResourceClaim), project.name) == consumer:
                    ledger.note((claim.namespace, claim.name))
        return ledger

    def _read_claims(
        self, project: Cluster, consumer: Consumer, ledger: Ledger, noted: Iterable[ClaimKey]
    ) -> list[PendingRequest]:
        cache = project.cache(quota.RESOURCE_CLAIMS)
        pending: list[PendingRequest] = []
        for key in noted:
            obj = cache.get(key[1], key[0])
            if obj is None:
                ledger.hold(key, {})
                continue
            claim = obj.view(quota.ResourceClaim)
            ledger.hold(key, budget.granted_amounts(claim))
            if obj.metadata.deleting:
                continue
            created = obj.metadata.creation_timestamp or EPOCH
            pending += [
                PendingRequest(created, key, one.resource_type, one.amount)
                for one in budget.undecided_requests(claim)
            ]
        return pending

    def _grants_of(self, project: Cluster, consumer: Consumer) -> dict[str, quota.ResourceGrant]:
        """Active grants of the consumer, by namespace and name."""
        found = {}
        for obj in project.cache(quota.RESOURCE_GRANTS).list():
            grant = obj.view(quota.ResourceGrant)
            reference = grant.spec.consumer_ref
            is_ours = Consumer(reference.kind, reference.name) == consumer
            if is_ours and budget.is_active(grant) and not obj.metadata.deleting:
                found[f"{obj.namespace}/{obj.name}"] = grant
        return found

    async def _reserve(
        self,
        project: Cluster,
        consumer: Consumer,
        ledger: Ledger,
        grants: Mapping[str, quota.ResourceGrant],
        verdicts: Mapping[ClaimKey, tuple[AllocationDecision, ...]],
    ) -> float:
        """Seconds until a bucket has more to tell, or 0."""
        limits = budget.limits_of(grants.values())
        refused = any(not one.granted for decided in verdicts.values() for one in decided)
        allocated, claims = dict(ledger.allocated), dict(ledger.claims)
        for verdict in (one for decided in verdicts.values() for one in decided):
            kind = verdict.resource_type
            if verdict.granted:
                allocated[kind] = allocated.get(kind, 0) + verdict.amount
                claims[kind] = claims.get(kind, 0) + 1
        waits = await _all(
            self._write_bucket(
                project,
                consumer,
                resource_type,
                refused,
                {
                    "limit": limits.get(resource_type, 0),
                    "allocated": allocated.get(resource_type, 0),
                    "available": max(
                        0, limits.get(resource_type, 0) - allocated.get(resource_type, 0)
                    ),
                    "claimCount": claims.get(resource_type, 0),
                    **_contributions(grants, resource_type),
                },
            )
            for resource_type in sorted(self._resource_types(project, consumer, limits, verdicts))
        )
        return min((wait for wait in waits if wait > 0), default=0.0)

    def _resource_types(
        self,
        project: Cluster,
        consumer: Consumer,
        limits: Iterable[str],
        verdicts: Mapping[ClaimKey, tuple[AllocationDecision, ...]],
    ) -> set[str]:
        """What needs a bucket: all that is granted or asked for, and every bucket there is."""
        found = {*limits, *(one.resource_type for decided in verdicts.values() for one in decided)}
        for obj in project.cache(quota.ALLOWANCE_BUCKETS).list(consumer.bucket_namespace):
            spec = obj.view(quota.AllowanceBucket).spec
            if Consumer(spec.consumer_ref.kind, spec.consumer_ref.name) == consumer:
                found.add(spec.resource_type)
        return found

    async def _write_bucket(
        self,
        project: Cluster,
        consumer: Consumer,
        resource_type: str,
        at_once: bool,
        numbers: dict[str, Any],
    ) -> float:
        """Seconds until it is this bucket's turn, where that can wait."""
        name = consumer.bucket_name(resource_type)
        bucket = project.cache(quota.ALLOWANCE_BUCKETS).get(name, consumer.bucket_namespace)
        if bucket is None:
            bucket = await self._create_bucket(project, consumer, resource_type, name)
        current = patch.values(bucket.status)
        numbers["observedGeneration"] = bucket.metadata.generation
        if {key: current.get(key) for key in numbers} == numbers:
            return 0.0
        now, uid = asyncio.get_running_loop().time(), bucket.metadata.uid
        if not at_once and _is_more_in_use(current, numbers):
            left = self._told_at.get(uid, now - USAGE_SECONDS) + USAGE_SECONDS - now
            if left > 0:
                return left
        self._told_at[uid] = now
        numbers["lastReconciliation"] = wire_time(self._env.now())
        await patch.write_status(project.client, quota.ALLOWANCE_BUCKETS, bucket, numbers)
        return 0.0

    async def _create_bucket(
        self, project: Cluster, consumer: Consumer, resource_type: str, name: str
    ) -> Object:
        body = {
            "apiVersion": quota.ALLOWANCE_BUCKETS.api_version,
            "kind": quota.ALLOWANCE_BUCKETS.kind,
            "metadata": {"name": name, "namespace": consumer.bucket_namespace},
            "spec": {
                "consumerRef": {
                    "apiGroup": "resourcemanager.miloapis.com",
                    "kind": consumer.kind,
                    "name": consumer.name,
                },
                "resourceType": resource_type,
            },
        }
        try:
            return await project.client.create(
                quota.ALLOWANCE_BUCKETS, body, consumer.bucket_namespace
            )
        except errors.AlreadyExists as error:
            raise Waiting(f"bucket {name} is there already, and not seen yet", 1.0) from error

    async def _answer(
        self,
        project: Cluster,
        consumer: Consumer,
        key: ClaimKey,
        verdicts: tuple[AllocationDecision, ...],
    ) -> None:
        obj = project.cache(quota.RESOURCE_CLAIMS).get(key[1], key[0])
        if obj is None:
            return  # deleted meanwhile; its deletion brings the next pass
        status = build_claim_status(obj, consumer, verdicts, self._env.now())
        try:
            await patch.write_status(project.client, quota.RESOURCE_CLAIMS, obj, status)
        except errors.NotFound:
            pass

    def _hold(
        self,
        project: Cluster,
        ledger: Ledger,
        key: ClaimKey,
        verdicts: tuple[AllocationDecision, ...],
    ) -> None:
        obj = project.cache(quota.RESOURCE_CLAIMS).get(key[1], key[0])
        if obj is None:
            return
        before = budget.granted_amounts(obj.view(quota.ResourceClaim))
        granted = {one.resource_type: one.amount for one in verdicts if one.granted}
        ledger.hold(key, {**before, **granted})


def build_claim_status(
    obj: Object, consumer: Consumer, verdicts: Iterable[AllocationDecision], now: datetime
) -> dict[str, Any]:
    """The claim's status with these verdicts, and ``Granted`` folded from all there are."""
    status = patch.values(obj.status)
    allocations = {one["resourceType"]: one for one in status.get("allocations", [])}
    for verdict in verdicts:
        allocation: dict[str, Any] = {
            "resourceType": verdict.resource_type,
            "status": quota.ALLOCATION_GRANTED if verdict.granted else quota.ALLOCATION_DENIED,
            "reason": quota.REASON_QUOTA_AVAILABLE
            if verdict.granted
            else quota.REASON_QUOTA_EXCEEDED,
            "message": verdict.message,
            "allocatingBucket": consumer.bucket_name(verdict.resource_type),
            "lastTransitionTime": wire_time(now),
        }
        if verdict.granted:
            allocation["allocatedAmount"] = verdict.amount
        allocations[verdict.resource_type] = allocation
    denied = [one for one in allocations.values() if one["status"] == quota.ALLOCATION_DENIED]
    if denied:
        answer = (FALSE, quota.REASON_QUOTA_EXCEEDED, _refusals(denied))
    else:
        answer = (TRUE, quota.REASON_QUOTA_AVAILABLE, "All requests have been granted")
    current = obj.view(quota.ResourceClaim).status.conditions
    folded = conditions.with_condition(
        current,
        quota.CONDITION_GRANTED,
        *answer,
        now=now,
        observed_generation=obj.metadata.generation,
    )
    return {
        **status,
        "allocations": [allocations[key] for key in sorted(allocations)],
        "conditions": conditions.to_wire(folded),
        "observedGeneration": obj.metadata.generation,
    }


def _refusals(denied: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(f"{one['resourceType']}: {one['message']}" for one in denied)


def _contributions(grants: Mapping[str, quota.ResourceGrant], resource_type: str) -> dict[str, Any]:
    references = [
        {
            "name": grant.metadata.name,
            "lastObservedGeneration": grant.metadata.generation,
            "amount": budget.amounts_of(grant)[resource_type],
        }
        for grant in grants.values()
        if resource_type in budget.amounts_of(grant)
    ]
    return {"grantCount": len(references), "contributingGrantRefs": references}


def _is_more_in_use(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a bucket has nothing to tell but that less is left."""
    usage = ("allocated", "available", "claimCount")
    if any(before.get(key) != value for key, value in after.items() if key not in usage):
        return False
    return bool(after["allocated"] >= before.get("allocated", 0))


async def _all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Side by side, so that they share a commit. Every call ends before an error is raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done
