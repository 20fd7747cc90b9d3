"""Ready and quota under arbitrary conditions."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api import conditions
from datum_compute.api.compute.reasons import lookup
from datum_compute.api.conditions import Condition, Conditions
from datum_compute.api.quota import v1alpha1 as quota_api
from datum_compute.decisions import quota
from datum_compute.decisions.rollup.readiness import (
    decide_conditions,
    is_ready_due,
)
from tests.support.decisions.builders import NOW, condition, instance

REASONS = [
    "Pending",
    "PendingProgramming",
    "ProgrammingInProgress",
    "Provisioning",
    "PendingQuota",
    "ImageUnavailable",
    "InstanceCrashing",
    "NetworkFailedToCreate",
    "Available",
]
statuses = st.sampled_from(["True", "False", "Unknown"])


def some(type: str) -> st.SearchStrategy[tuple[Condition, ...]]:
    """That condition in any state, or none."""
    provided = st.builds(
        lambda s, r: (condition(type, s, r, f"{type} message"),), statuses, reasons
    )
    return st.just(()) | provided


reasons = st.sampled_from(REASONS)
providers = st.tuples(some("Programmed"), some("Available"), some("Custom")).map(
    lambda parts: tuple(each for part in parts for each in part)
)
grants = some("QuotaGranted")
gates = st.sampled_from([(), ("Network",), ("Quota",), ("Network", "Quota")])
failures = st.sampled_from([None, "no room"])


before = some("Ready")


def ready_of(found: Conditions) -> Condition:
    (ready,) = [each for each in found if each.type == "Ready"]
    return ready


def decide(
    provided: Conditions, gates: tuple[str, ...] = (), failure: str | None = None
) -> Conditions:
    return decide_conditions(
        instance(0, gates=gates, conditions=provided or [condition("Odd", "True")]),
        now=NOW,
        network_failure=failure,
    )


@given(providers, grants, gates, failures)
def test_ready_is_true_exactly_when_programmed_and_available_without_gates(
    provided: Conditions, grant: Conditions, gates: tuple[str, ...], failure: str | None
) -> None:
    well = conditions.is_true(provided, "Programmed") and conditions.is_true(provided, "Available")

    ready = ready_of(decide((*provided, *grant), gates, failure))

    assert (ready.status == "True") == (well and not gates)
    assert ready.reason


@given(providers, grants)
def test_a_grant_is_sticky_so_without_gates_quota_plays_no_part(
    provided: Conditions, grant: Conditions
) -> None:
    with_it, without = decide((*provided, *grant)), decide(provided)

    assert ready_of(with_it) == ready_of(without)
    for type in ("Programmed", "Available", "Custom"):
        assert conditions.find(with_it, type) == conditions.find(provided, type)


@given(providers, grants, gates, some("Running"))
def test_a_leftover_running_condition_is_never_read(
    provided: Conditions, grant: Conditions, gates: tuple[str, ...], running: Conditions
) -> None:
    assert ready_of(decide((*provided, *grant, *running), gates)) == ready_of(
        decide((*provided, *grant), gates)
    )


@given(providers)
def test_the_blocking_reason_has_the_highest_priority_unknown_ones_included(
    provided: Conditions,
) -> None:
    open_ = [each for each in provided if each.status != "True" and each.reason != "PendingQuota"]

    ready = ready_of(decide(provided))

    if not conditions.is_true(provided, "Programmed"):
        priorities = [lookup(each.reason).priority for each in open_]
        assert lookup(ready.reason).priority == max(priorities, default=0)


@given(providers, grants, gates, failures)
def test_provider_conditions_are_written_only_while_the_quota_gate_is_present(
    provided: Conditions, grant: Conditions, gates: tuple[str, ...], failure: str | None
) -> None:
    found = decide((*provided, *grant), gates, failure)

    for type in ("Programmed", "Available"):
        before, after = conditions.find(provided, type), conditions.find(found, type)
        if "Quota" not in gates:
            assert after == before
        elif any(each.status == "False" for each in grant):
            assert after is not None
            assert (after.status, after.reason) == ("False", "PendingQuota")
        elif before is None or before.reason != "PendingQuota":
            assert after == before


@given(providers, grants, gates, failures)
def test_deciding_again_later_changes_nothing(
    provided: Conditions, grant: Conditions, gates: tuple[str, ...], failure: str | None
) -> None:
    once = decide((*provided, *grant), gates, failure)

    again = decide_conditions(
        instance(0, gates=gates, conditions=once),
        now=NOW + timedelta(hours=1),
        network_failure=failure,
    )

    assert again == once


claims = st.none() | st.builds(
    lambda provided: quota_api.ResourceClaim(
        status=quota_api.ResourceClaimStatus(conditions=provided)
    ),
    st.just(())
    | st.builds(
        lambda status, reason: (condition("Granted", status, reason),),
        statuses,
        st.sampled_from(["QuotaAvailable", "QuotaExceeded", "ValidationFailed"])
        | st.just("PendingEvaluation"),
    ),
)


def is_answered(claim: quota_api.ResourceClaim | None) -> bool:
    provided = claim.status.conditions if claim else ()
    return any(each.status != "Unknown" and each.reason != "PendingEvaluation" for each in provided)


@given(claims, st.sampled_from(["QuotaAvailable", "QuotaDisabled"]))
def test_a_grant_is_kept_whatever_becomes_of_the_claim(
    claim: quota_api.ResourceClaim | None, reason: str
) -> None:
    before = condition("QuotaGranted", "True", reason, "granted once")

    assert quota.decide_quota(claim, before) == conditions.ConditionState(
        "True", reason, "granted once"
    )


@given(claims, st.sampled_from(["QuotaExceeded", "ValidationFailed"]))
def test_a_denial_counts_until_a_new_claim_is_evaluated(
    claim: quota_api.ResourceClaim | None, reason: str
) -> None:
    before = condition("QuotaGranted", "False", reason, "no")

    decided = quota.decide_quota(claim, before)

    if not is_answered(claim) and not _is_granted(claim):
        assert decided == conditions.ConditionState("False", reason, "no")
    else:
        assert decided == quota.decide_quota(claim, None)


def _is_granted(claim: quota_api.ResourceClaim | None) -> bool:
    return claim is not None and conditions.is_true(claim.status.conditions, "Granted")


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_pending_instance_is_never_requeued_more_often_as_it_ages(
    younger: int, older: int
) -> None:
    younger, older = sorted((younger, older))

    def delay(age: int) -> float:
        return quota.pending_requeue(NOW - timedelta(seconds=age), NOW)

    assert 1 <= delay(younger) <= delay(older) <= 300


@given(providers, grants, before, gates)
def test_ready_is_due_exactly_while_deciding_would_change_whether_it_serves(
    provided: Conditions, grant: Conditions, ready: Conditions, gates: tuple[str, ...]
) -> None:
    found = instance(
        0, gates=gates, conditions=(*provided, *grant, *ready) or [condition("Odd", "True")]
    )
    decided = ready_of(decide_conditions(found, now=NOW))

    changes = (decided.status == "True") != found.ready

    assert is_ready_due(found) == (changes and not gates)
