"""The size an Instance claims, and what the decision on the claim means."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota_api
from datum_compute.decisions import quota
from datum_compute.decisions.quota import Size
from tests.support.decisions.builders import NOW, bucket, condition

TYPE = "datumcloud/d1-standard-2"
BOTH = {"cpu": "500m", "memory": "256Mi"}


def spec(
    *limits: dict[str, Any] | None, requests: dict[str, Any] | None = None, type: str = TYPE
) -> compute.InstanceSpec:
    """One container for each of the limits; None for one without resources."""
    return msgspec.convert(
        {
            "runtime": {
                "resources": {"instanceType": type, "requests": requests or {}},
                "sandbox": {
                    "containers": [
                        {"name": f"c{n}"}
                        if each is None
                        else {"name": f"c{n}", "resources": {"limits": each}}
                        for n, each in enumerate(limits)
                    ]
                },
            }
        },
        compute.InstanceSpec,
    )


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (spec(BOTH), Size(500, 256)),
        (spec(BOTH, {"cpu": 1, "memory": "1Gi"}), Size(1500, 1280)),
        (spec(BOTH, {"cpu": 1}), Size(1000, 2048)),
        (spec(BOTH, {}, requests={"cpu": 4, "memory": "8Gi"}), Size(4000, 8192)),
        (spec({"cpu": "lots", "memory": "1Gi"}), Size(1000, 2048)),
        (spec(requests={"cpu": 4}), Size(1000, 2048)),
        (spec({"cpu": "0", "memory": "0"}), Size(0, 0)),
        (spec(BOTH, None), Size(1000, 2048)),
        (spec(), Size(1000, 2048)),
        (spec(type="other/type"), Size()),
        (compute.InstanceSpec(), Size()),
    ],
)
def test_the_size_that_an_instance_claims(given: compute.InstanceSpec, size: Size) -> None:
    assert quota.decide_size(given) == size


def test_an_instance_of_unknown_size_claims_only_one_instance() -> None:
    assert Size().requests() == {"compute.datumapis.com/instances": 1}
    assert Size(500, None).requests() == Size(None, 256).requests() == Size().requests()
    assert list(Size(1, 1).requests().values()) == [1, 1, 1]
    assert Size(0, 256).requests() == {
        "compute.datumapis.com/instances": 1,
        "compute.datumapis.com/memory": 256,
    }


def build() -> dict[str, Any]:
    return quota.build_claim(
        instance_name="web-default-dfw-0",
        instance_namespace="ns-1",
        claim_namespace="default",
        project="demo",
        source_cluster="dfw",
        size=Size(1000, 2048),
    )


def test_a_claim_names_the_project_as_consumer() -> None:
    project = {"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "demo"}

    assert build() == {
        "apiVersion": "quota.miloapis.com/v1alpha1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "instance-web-default-dfw-0",
            "namespace": "default",
            "labels": {
                "compute.datumapis.com/source-cluster": "dfw",
                "compute.datumapis.com/instance-namespace": "ns-1",
            },
        },
        "spec": {
            "consumerRef": project,
            "resourceRef": project,
            "requests": [
                {"resourceType": "compute.datumapis.com/instances", "amount": 1},
                {"resourceType": "compute.datumapis.com/vcpus", "amount": 1000},
                {"resourceType": "compute.datumapis.com/memory", "amount": 2048},
            ],
        },
    }


def claim(status: str = "", reason: str = "", message: str = "") -> quota_api.ResourceClaim:
    given = (condition("Granted", status, reason, message),) if status else ()
    return quota_api.ResourceClaim(
        spec=msgspec.convert(build()["spec"], quota_api.ResourceClaimSpec),
        status=quota_api.ResourceClaimStatus(conditions=given),
    )


def test_a_claim_fits_only_its_size() -> None:
    assert quota.claim_fits(claim(), Size(1000, 2048))
    assert not quota.claim_fits(claim(), Size(2000, 2048))
    assert not quota.claim_fits(claim(), Size())


@pytest.mark.parametrize(
    ("ordinal", "desired", "wanted", "kept"),
    [
        (0, 1, Size(1, 1), True),
        (1, 1, Size(1, 1), False),
        (0, 0, Size(1, 1), False),
        (0, 1, Size(2, 1), False),
        (None, 1, Size(1, 1), False),
    ],
)
def test_a_claim_is_kept_only_for_a_replacement(
    ordinal: int | None, desired: int, wanted: Size, kept: bool
) -> None:
    found = quota.keeps_claim(ordinal=ordinal, desired=desired, size=Size(1, 1), wanted=wanted)

    assert found is kept


UNEVALUATED = condition("QuotaGranted", "Unknown", "PendingEvaluation")
DENIED = condition("QuotaGranted", "False", "QuotaExceeded", "full")
GRANTED = condition("QuotaGranted", "True", "QuotaAvailable", "yes")
UNAVAILABLE = condition("QuotaGranted", "False", "QuotaBackendUnavailable", "no answer")


@pytest.mark.parametrize(
    ("answer", "previous", "decided"),
    [
        (None, None, ("Unknown", "PendingEvaluation")),
        (None, UNEVALUATED, ("Unknown", "PendingEvaluation")),
        (claim(), UNEVALUATED, ("Unknown", "PendingEvaluation")),
        (claim("False", "PendingEvaluation"), UNEVALUATED, ("Unknown", "QuotaNoBudget")),
        (claim("Unknown", "QuotaExceeded"), UNEVALUATED, ("Unknown", "PendingEvaluation")),
        (claim("True", "QuotaAvailable"), UNEVALUATED, ("True", "QuotaAvailable")),
        (claim("False", "QuotaExceeded"), UNEVALUATED, ("False", "QuotaExceeded")),
        (claim("False", "SomethingElse"), UNEVALUATED, ("False", "QuotaExceeded")),
        (claim("False", "ValidationFailed"), UNEVALUATED, ("False", "ValidationFailed")),
        # A denial counts until a new claim is answered.
        (None, DENIED, ("False", "QuotaExceeded")),
        (claim("False", "PendingEvaluation"), DENIED, ("False", "QuotaExceeded")),
        (claim("True", "QuotaAvailable"), DENIED, ("True", "QuotaAvailable")),
        # A claim without an answer is not denied.
        (None, UNAVAILABLE, ("Unknown", "PendingEvaluation")),
        (claim("True", "QuotaAvailable"), UNAVAILABLE, ("True", "QuotaAvailable")),
        # A grant stays, whatever becomes of the claim.
        (None, GRANTED, ("True", "QuotaAvailable")),
        (claim("False", "QuotaExceeded"), GRANTED, ("True", "QuotaAvailable")),
    ],
)
def test_how_a_claim_is_interpreted(answer: Any, previous: Any, decided: tuple[str, str]) -> None:
    found = quota.decide_quota(answer, previous)

    assert (found.status, found.reason) == decided


def test_only_a_decided_claim_is_a_denial() -> None:
    assert quota.is_denied(DENIED)
    assert not quota.is_denied(UNAVAILABLE)
    assert not quota.is_denied(UNEVALUATED)
    assert not quota.is_denied(condition("QuotaGranted", "Unknown", "QuotaExceeded"))


@pytest.mark.parametrize(
    ("code", "namespace", "reason"),
    [
        (404, "default", "QuotaNamespaceNotFound"),
        (404, "", "QuotaProjectNotFound"),
        (403, "default", "QuotaMisconfigured"),
        (422, "default", "QuotaMisconfigured"),
        (500, "default", "QuotaBackendUnavailable"),
        (None, "default", "QuotaBackendUnavailable"),
    ],
)
def test_the_reason_why_a_claim_could_not_be_created(
    code: int | None, namespace: str, reason: str
) -> None:
    assert quota.create_failure_reason(code, namespace=namespace) == reason


@pytest.mark.parametrize(
    ("age", "seconds"),
    [(0, 1), (59, 1), (60, 15), (299, 15), (300, 60), (599, 60), (600, 300), (90000, 300)],
)
def test_a_pending_instance_is_requeued_less_often_as_it_ages(age: int, seconds: float) -> None:
    assert quota.pending_requeue(NOW - timedelta(seconds=age), NOW) == seconds


def test_an_instance_without_an_age_is_new() -> None:
    assert quota.pending_requeue(None, NOW) == 1.0


def allocated(**answers: str) -> quota_api.ResourceClaim:
    """A claim of the full size, with the answer of each bucket."""
    made = msgspec.convert(build(), quota_api.ResourceClaim)
    allocations = tuple(
        quota_api.RequestAllocation(resource_type=f"compute.datumapis.com/{kind}", status=status)
        for kind, status in answers.items()
    )
    return msgspec.structs.replace(
        made, status=quota_api.ResourceClaimStatus(allocations=allocations)
    )


@pytest.mark.parametrize(
    ("denied", "buckets", "room"),
    [
        (allocated(vcpus="Denied"), [bucket("vcpus", 1000)], False),
        (allocated(instances="Denied", memory="Granted", vcpus="Granted"), [], False),
        (
            allocated(instances="Granted", memory="Granted", vcpus="Denied"),
            [bucket("vcpus", 1000)],
            True,
        ),
        (
            allocated(instances="Granted", memory="Granted", vcpus="Denied"),
            [bucket("vcpus", 999)],
            False,
        ),
        (
            allocated(instances="Granted", memory="Pending", vcpus="Denied"),
            [bucket("vcpus", 1000)],
            False,
        ),
        (
            allocated(),
            [bucket("vcpus", 1000), bucket("memory", 2048), bucket("instances", 1)],
            True,
        ),
    ],
)
def test_amounts_that_a_denied_claim_still_holds_need_no_free_quota(
    denied: quota_api.ResourceClaim, buckets: list[quota_api.AllowanceBucket], room: bool
) -> None:
    assert quota.has_room_for_denied(denied, buckets, project="demo") is room


def test_only_buckets_of_the_project_count() -> None:
    buckets = [
        bucket("instances", 3),
        bucket("memory", 5, "other"),
        bucket("vcpus", 7, kind="Organization"),
    ]

    assert quota.available_in(buckets, "demo") == {"compute.datumapis.com/instances": 3}


def fed(kind: str, **status: Any) -> quota_api.AllowanceBucket:
    body = {
        "metadata": {"name": kind, "uid": f"uid-of-{kind}"},
        "spec": {
            "consumerRef": {"kind": "Project", "name": "demo"},
            "resourceType": f"compute.datumapis.com/{kind}",
        },
        "status": {"limit": 10, "available": 10, **status},
    }
    return msgspec.convert(body, quota_api.AllowanceBucket)


FED = {"contributingGrantRefs": [{"name": "g", "lastObservedGeneration": 1, "amount": 10}]}


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ([fed("instances")], [fed("instances", allocated=3, available=7)], True),
        ([fed("instances")], [fed("instances"), fed("disks")], True),
        ([fed("instances")], [fed("instances", limit=11)], False),
        ([fed("instances")], [fed("instances", **FED)], False),
        ([fed("instances")], [], False),
    ],
    ids=["used", "another-kind", "limit", "grants", "gone"],
)
def test_the_budget_behind_a_claim_does_not_depend_on_usage_by_others(
    before: list[quota_api.AllowanceBucket], after: list[quota_api.AllowanceBucket], same: bool
) -> None:
    size = Size()
    first, second = (quota.budget_for(size, each, project="demo") for each in (before, after))

    assert (first == second) is same
    assert quota.budget_for(size, before, project="another") == ()
