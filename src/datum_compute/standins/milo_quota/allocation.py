"""Allocation: one reconcile decides all pending claims of a consumer.

A reconcile reads the claims that changed since the last one, decides what is pending, writes each
bucket whose numbers changed (the reservation) and then each decided claim, with its allocations and
the resulting ``Granted`` in one write. A crash in between is harmless: the next reconcile adds up
what the claims hold, and decides what is still pending.

Every cell that has claims in a project watches its buckets, to learn of free quota. Cells do not
need to know of every grant: while nothing is denied, a bucket reports usage at once and then at
most every half second. More free quota, another limit, and everything in a reconcile with a denial
are written in the same reconcile.

The real system has one controller per bucket and another that sets ``Granted``; a claim on three
buckets then takes four writes. The order and the content of the writes are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from datum_compute.api.conditions import EPOCH, FALSE, TRUE, wire_time
from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client import errors
from datum_compute.env import Environment
from datum_compute.runtime.cache.quarantine import readable, views
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.result import DONE, Result, after
from datum_compute.runtime.tasks import gather_all
from datum_compute.runtime.workqueue.rate_limiter import RateLimiter
from datum_compute.runtime.writes import patch
from datum_compute.runtime.writes.conditions import ConditionChange, status_with
from datum_compute.runtime.writes.create import create_or_wait
from datum_compute.standins.milo_quota import budget
from datum_compute.standins.milo_quota.budget import (
    AllocationDecision,
    ClaimKey,
    Consumer,
    PendingRequest,
)
from datum_compute.standins.milo_quota.ledger import Ledger

USAGE_SECONDS = 0.5
"""The shortest time between two reports of a bucket that only report more usage."""


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
    """A request names a consumer: its kind in place of the namespace."""

    def __init__(self, projects: Fleet, env: Environment) -> None:
        self._projects = projects
        self._env = env
        self._ledgers: dict[tuple[str, Consumer], tuple[Cluster, Ledger]] = {}
        self._usage_reports = RateLimiter(USAGE_SECONDS, late_factor=0.0)  # by uid of a bucket

    def consumer_of_claim(self, project: str, claim: Object) -> Iterable[Request]:
        consumer = budget.consumer_of(claim.view(quota.ResourceClaim), project)
        # Marks the claim to be read again; the reconcile reads it from the cache.
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
        decisions = budget.decide_allocations(
            pending, budget.limits_of(grants.values()), ledger.allocated
        )
        due_in = await self._reserve(project, consumer, ledger, grants, decisions)
        self._env.fault("quota.after-reservation")
        await gather_all(
            self._answer(project, consumer, claim, decisions[claim]) for claim in sorted(decisions)
        )
        for claim, decided in decisions.items():
            self._hold(project, ledger, claim, decided)
        ledger.done(noted)
        return after(due_in) if due_in > 0 else DONE

    def _ledger(self, project: Cluster, consumer: Consumer) -> Ledger:
        engaged, ledger = self._ledgers.get((project.name, consumer), (None, Ledger()))
        if engaged is not project:
            # New, or engaged again after changes that were not watched.
            ledger = Ledger()
            self._ledgers[(project.name, consumer)] = (project, ledger)
            claims = project.cache(quota.RESOURCE_CLAIMS).list()
            for claim in readable(claims, quota.ResourceClaim):
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
            if not readable((obj,), quota.ResourceClaim):
                continue  # what it holds stays as it was
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
        for obj in readable(project.cache(quota.RESOURCE_GRANTS).list(), quota.ResourceGrant):
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
        decisions: Mapping[ClaimKey, tuple[AllocationDecision, ...]],
    ) -> float:
        """Write the buckets. Returns the seconds until a bucket's usage is due, or 0."""
        limits = budget.limits_of(grants.values())
        denied = any(not one.granted for decided in decisions.values() for one in decided)
        allocated, claims = dict(ledger.allocated), dict(ledger.claims)
        for decision in (one for decided in decisions.values() for one in decided):
            kind = decision.resource_type
            if decision.granted:
                allocated[kind] = allocated.get(kind, 0) + decision.amount
                claims[kind] = claims.get(kind, 0) + 1
        waits = await gather_all(
            self._write_bucket(
                project,
                consumer,
                resource_type,
                denied,
                {
                    "limit": limits.get(resource_type, 0),
                    "allocated": budget.bounded(allocated.get(resource_type, 0)),
                    "available": max(
                        0, limits.get(resource_type, 0) - allocated.get(resource_type, 0)
                    ),
                    "claimCount": claims.get(resource_type, 0),
                    **_contributions(grants, resource_type),
                },
            )
            for resource_type in sorted(self._resource_types(project, consumer, limits, decisions))
        )
        return min((wait for wait in waits if wait > 0), default=0.0)

    def _resource_types(
        self,
        project: Cluster,
        consumer: Consumer,
        limits: Iterable[str],
        decisions: Mapping[ClaimKey, tuple[AllocationDecision, ...]],
    ) -> set[str]:
        """What needs a bucket: all that is granted or requested, and every existing bucket."""
        found = {*limits, *(one.resource_type for decided in decisions.values() for one in decided)}
        buckets = project.cache(quota.ALLOWANCE_BUCKETS).list(consumer.bucket_namespace)
        for spec in (each.spec for each in views(buckets, quota.AllowanceBucket)):
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
        """Write a bucket. Returns the seconds until it may report its usage; 0 if it is written."""
        name = consumer.bucket_name(resource_type)
        bucket = project.cache(quota.ALLOWANCE_BUCKETS).get(name, consumer.bucket_namespace)
        if bucket is None:
            bucket = await self._create_bucket(project, consumer, resource_type, name)
        current = patch.values(bucket.status)
        numbers["observedGeneration"] = bucket.metadata.generation
        if {key: current.get(key) for key in numbers} == numbers:
            return 0.0
        uid = bucket.metadata.uid
        if not at_once and _is_more_in_use(current, numbers):
            left = self._usage_reports.delay(uid)
            if left > 0:
                return left
        numbers["lastReconciliation"] = wire_time(self._env.now())
        await patch.write_status(project.client, quota.ALLOWANCE_BUCKETS, bucket, numbers)
        self._usage_reports.spend(uid)
        return 0.0

    async def _create_bucket(
        self, project: Cluster, consumer: Consumer, resource_type: str, name: str
    ) -> Object:
        body = {
            "metadata": {
                "name": name,
                "namespace": consumer.bucket_namespace,
                "labels": consumer.labels,
            },
            "spec": {
                "consumerRef": {
                    "apiGroup": "resourcemanager.miloapis.com",
                    "kind": consumer.kind,
                    "name": consumer.name,
                },
                "resourceType": resource_type,
            },
        }
        return await create_or_wait(
            project.client, quota.ALLOWANCE_BUCKETS, body, consumer.bucket_namespace
        )

    async def _answer(
        self,
        project: Cluster,
        consumer: Consumer,
        key: ClaimKey,
        decided: tuple[AllocationDecision, ...],
    ) -> None:
        obj = project.cache(quota.RESOURCE_CLAIMS).get(key[1], key[0])
        if obj is None:
            return  # deleted since; its deletion causes the next reconcile
        status = build_claim_status(obj, consumer, decided, self._env.now())
        try:
            await patch.write_status(project.client, quota.RESOURCE_CLAIMS, obj, status)
        except errors.NotFound:
            pass

    def _hold(
        self,
        project: Cluster,
        ledger: Ledger,
        key: ClaimKey,
        decided: tuple[AllocationDecision, ...],
    ) -> None:
        obj = project.cache(quota.RESOURCE_CLAIMS).get(key[1], key[0])
        if obj is None:
            return
        before = budget.granted_amounts(obj.view(quota.ResourceClaim))
        granted = {one.resource_type: one.amount for one in decided if one.granted}
        ledger.hold(key, {**before, **granted})


def build_claim_status(
    obj: Object, consumer: Consumer, decided: Iterable[AllocationDecision], now: datetime
) -> dict[str, Any]:
    """The claim's status with these decisions, and ``Granted`` from all its allocations."""
    status = patch.status_values(obj)
    allocations = {one.get("resourceType", ""): one for one in status.get("allocations", [])}
    for decision in decided:
        allocation: dict[str, Any] = {
            "resourceType": decision.resource_type,
            "status": quota.ALLOCATION_GRANTED if decision.granted else quota.ALLOCATION_DENIED,
            "reason": quota.REASON_QUOTA_AVAILABLE
            if decision.granted
            else quota.REASON_QUOTA_EXCEEDED,
            "message": decision.message,
            "allocatingBucket": consumer.bucket_name(decision.resource_type),
            "lastTransitionTime": wire_time(now),
        }
        if decision.granted:
            allocation["allocatedAmount"] = decision.amount
        allocations[decision.resource_type] = allocation
    denied = [one for one in allocations.values() if one["status"] == quota.ALLOCATION_DENIED]
    if denied:
        answer = (FALSE, quota.REASON_QUOTA_EXCEEDED, _refusals(denied))
    else:
        answer = (TRUE, quota.REASON_QUOTA_AVAILABLE, "All requests have been granted")
    return {
        **status_with(obj, ConditionChange(quota.CONDITION_GRANTED, *answer), now=now),
        "allocations": [allocations[key] for key in sorted(allocations)],
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
    """Whether a bucket's only change is that less of it is left."""
    usage = ("allocated", "available", "claimCount")
    allocated = before.get("allocated", 0)
    if not isinstance(allocated, int):
        return False
    if any(before.get(key) != value for key, value in after.items() if key not in usage):
        return False
    return bool(after["allocated"] >= allocated)
