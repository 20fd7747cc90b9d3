"""Decisions on claims, and the ledger they are based on."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.standins.milo_quota.budget import (
    AllocationDecision,
    ClaimKey,
    Consumer,
    PendingRequest,
    decide_allocations,
    undecided_requests,
)
from datum_compute.standins.milo_quota.ledger import Ledger

START = datetime(2026, 1, 1, tzinfo=UTC)
INSTANCES, MEMORY = "compute.datumapis.com/instances", "compute.datumapis.com/memory"


def pending(name: str, amount: int = 1, *, after: int = 0, kind: str = INSTANCES) -> PendingRequest:
    return PendingRequest(START + timedelta(seconds=after), ("default", name), kind, amount)


def granted(decisions: dict[ClaimKey, tuple[AllocationDecision, ...]]) -> list[str]:
    return sorted(
        name
        for (_, name), decided in decisions.items()
        if all(verdict.granted for verdict in decided)
    )


def test_the_oldest_claims_are_served_first_then_by_name() -> None:
    requests = [pending("a", after=5), pending("c"), pending("b")]

    assert granted(decide_allocations(requests, {INSTANCES: 2}, {})) == ["b", "c"]


def test_a_claim_that_does_not_fit_does_not_hold_back_a_smaller_one() -> None:
    requests = [pending("large", 5), pending("small", 1, after=1)]

    assert granted(decide_allocations(requests, {INSTANCES: 3}, {INSTANCES: 1})) == ["small"]


def test_each_bucket_decides_alone() -> None:
    requests = [pending("a"), pending("a", 4096, kind=MEMORY)]
    decisions = decide_allocations(requests, {INSTANCES: 0, MEMORY: 8192}, {})[("default", "a")]

    assert {verdict.resource_type: verdict.granted for verdict in decisions} == {
        INSTANCES: False,
        MEMORY: True,
    }


def test_a_resource_without_a_grant_has_a_limit_of_zero() -> None:
    assert granted(decide_allocations([pending("a")], {}, {})) == []


def test_grants_never_exceed_the_limit_whatever_is_claimed() -> None:
    chance = random.Random(7)
    for _ in range(200):
        limit, used = chance.randint(0, 20), chance.randint(0, 20)
        requests = [pending(str(n), chance.randint(1, 6)) for n in range(chance.randint(0, 10))]
        decisions = decide_allocations(requests, {INSTANCES: limit}, {INSTANCES: used})
        given = sum(v.amount for decided in decisions.values() for v in decided if v.granted)

        assert given <= max(0, limit - used)
        assert len(decisions) == len(requests)


def test_a_bucket_is_named_by_resource_kind_and_consumer() -> None:
    project = Consumer("Project", "demo")

    assert project.bucket_namespace == "milo-system"
    assert Consumer("Organization", "acme").bucket_namespace == "organization-acme"
    assert project.bucket_name(INSTANCES).startswith("bucket-")
    assert len(project.bucket_name(INSTANCES)) == len("bucket-") + 64
    assert project.bucket_name(INSTANCES) != project.bucket_name(MEMORY)
    assert project.bucket_name(INSTANCES) != Consumer("Project", "other").bucket_name(INSTANCES)


def test_the_sums_of_a_ledger_equal_a_recount_after_any_changes() -> None:
    chance = random.Random(11)
    ledger, truth = Ledger(), dict[ClaimKey, dict[str, int]]()
    for _ in range(500):
        key = ("default", str(chance.randint(0, 20)))
        kinds = chance.sample([INSTANCES, MEMORY], chance.randint(0, 2))
        truth[key] = {kind: chance.randint(1, 9) for kind in kinds}
        ledger.hold(key, truth[key])

        for kind in (INSTANCES, MEMORY):
            held = [amounts[kind] for amounts in truth.values() if kind in amounts]
            assert ledger.allocated.get(kind, 0) == sum(held)
            assert ledger.claims.get(kind, 0) == len(held)


def test_a_claim_noted_during_a_reconcile_stays_noted() -> None:
    ledger = Ledger()
    ledger.note(("default", "a"))
    ledger.note(("default", "b"))
    noted = ledger.noted()
    ledger.note(("default", "a"))
    ledger.done(noted)

    assert list(ledger.noted()) == [("default", "a")]


def test_only_requests_without_a_decision_are_decided() -> None:
    decided = quota.ResourceClaim(
        spec=quota.ResourceClaimSpec(
            requests=tuple(
                quota.ClaimRequest(resource_type=kind, amount=1) for kind in ("a", "b", "c", "d")
            )
        ),
        status=quota.ResourceClaimStatus(
            allocations=(
                quota.RequestAllocation(resource_type="a", status="Granted", allocated_amount=1),
                quota.RequestAllocation(resource_type="b", status="Denied"),
                quota.RequestAllocation(resource_type="c", status="Pending"),
            )
        ),
    )

    assert [one.resource_type for one in undecided_requests(decided)] == ["c", "d"]
