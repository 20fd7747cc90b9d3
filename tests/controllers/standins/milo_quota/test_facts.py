"""Facts about Milo's quota that the stand-in reproduces, one per test.

The table in ``docs/develop/stand-in-facts.md`` lists which test keeps which fact; many are kept by
the tests next to this file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest

from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager import v1alpha1 as resourcemanager
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import Values, values
from datum_compute.standins.milo_quota.expressions import ExpressionError, evaluate, holds, render
from tests.support.standins.platform import (
    StandinPlatform,
    build,
    claim,
    condition,
    exists,
    grant,
    register,
    registration,
    running,
    settle,
    standin_platform,
    until,
    until_gone,
)
from tests.support.standins.quota import (
    AVAILABLE,
    EXCEEDED,
    INSTANCES,
    MEMORY,
    answer,
    bucket,
    controllers,
    create_claim,
    give,
    project,
)

CLAIMS, GRANTS, BUCKETS = quota.RESOURCE_CLAIMS, quota.RESOURCE_GRANTS, quota.ALLOWANCE_BUCKETS
REGISTRATIONS, POLICIES = quota.RESOURCE_REGISTRATIONS, quota.GRANT_CREATION_POLICIES


@asynccontextmanager
async def judged(**granted: int) -> AsyncIterator[StandinPlatform]:
    """A project whose new claims are checked against the registrations of the root plane."""
    async with standin_platform(judged=True) as found:
        await found.set_project_ready()
        await register(found.root)
        async with running(found.env, controllers(found)):
            if granted:
                await give(found, "given", **granted)
            yield found


async def refusal(found: StandinPlatform, body: Values) -> str:
    with pytest.raises(errors.Forbidden) as refused:
        await found.project.create(CLAIMS, body, "default")
    return str(refused.value)


# The kinds


async def test_a_registration_becomes_active() -> None:
    async with judged() as found:
        await until(
            found.root,
            REGISTRATIONS,
            "compute-instances",
            "",
            lambda one: condition(one, "Active") == ("True", "RegistrationActive"),
        )


@pytest.mark.parametrize(
    "change",
    [
        {"resourceType": "compute.datumapis.com/other"},
        {"type": "Entity"},
        {"consumerType": {"kind": "Organization"}},
    ],
)
async def test_resource_and_consumer_types_of_a_registration_are_immutable(change: Values) -> None:
    async with standin_platform() as found:
        await register(found.root, "instances")

        with pytest.raises(errors.Invalid, match="is immutable"):
            await found.root.patch(REGISTRATIONS, "compute-instances", merge({"spec": change}))
        other = {"spec": {"displayUnit": "piece"}}
        await found.root.patch(REGISTRATIONS, "compute-instances", merge(other))


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "Feature"},
        {"resourceType": "a" * 254},
        {"unitConversionFactor": 0},
        {"claimingResources": []},
        {"claimingResources": [{"apiGroup": "a", "kind": f"K{i}"} for i in range(21)]},
    ],
    ids=lambda spec: str(spec)[:30],
)
async def test_a_registration_keeps_its_bounds(spec: Values) -> None:
    async with standin_platform() as found:
        with pytest.raises(errors.Invalid):
            await found.root.create(REGISTRATIONS, registration("instances", **spec))
        await found.root.create(REGISTRATIONS, registration("instances", type="Entity"))


@pytest.mark.parametrize("count", [0, 21])
async def test_a_grant_has_one_to_twenty_allowances_of_zero_or_more(count: int) -> None:
    async with standin_platform() as found:
        for amounts in ({f"a/{i}": 1 for i in range(count)}, {INSTANCES: -1}):
            with pytest.raises(errors.Invalid):
                await found.project.create(GRANTS, grant("bad", amounts), "milo-system")
        await found.project.create(GRANTS, grant("good", {INSTANCES: 0}), "milo-system")


async def test_a_second_registration_of_a_resource_type_does_not_count() -> None:
    async with judged() as found:
        again = registration("instances")
        again["metadata"]["name"] = "compute-instances-again"
        await asyncio.sleep(1)
        await found.root.create(REGISTRATIONS, again)
        await until(
            found.root,
            REGISTRATIONS,
            "compute-instances-again",
            "",
            lambda one: condition(one, "Active") == ("False", "ValidationFailed"),
        )
        await found.root.delete(REGISTRATIONS, "compute-instances")

        await until(
            found.root,
            REGISTRATIONS,
            "compute-instances-again",
            "",
            lambda one: condition(one, "Active") == ("True", "RegistrationActive"),
        )


async def test_a_grant_of_an_unregistered_resource_type_waits_for_its_registration() -> None:
    async with project() as found:
        body = grant("early", {"compute.datumapis.com/disks": 3})
        await found.project.create(GRANTS, body, "milo-system")
        await until(
            found.project,
            GRANTS,
            "early",
            "milo-system",
            lambda one: condition(one, "Active") == ("False", "ValidationFailed"),
        )
        await register(found.root, "disks")

        await until(
            found.project,
            GRANTS,
            "early",
            "milo-system",
            lambda one: condition(one, "Active") == ("True", "GrantActive"),
        )
        await bucket(found, "compute.datumapis.com/disks", limit=3)


async def test_an_active_grant_outlives_its_registration() -> None:
    async with project(instances=4) as found:
        await found.root.delete(REGISTRATIONS, "compute-instances")
        await settle()

        await bucket(found, INSTANCES, limit=4)


async def test_a_bucket_has_numbers_and_its_grants_and_no_conditions() -> None:
    async with project(instances=4) as found:
        status = await bucket(found, INSTANCES, limit=4)

        assert {"limit", "allocated", "available", "claimCount", "grantCount"} <= status.keys()
        assert status["lastReconciliation"]
        assert [one["name"] for one in status["contributingGrantRefs"]] == ["given"]
        assert "conditions" not in status


async def test_a_new_claim_is_not_granted_and_pending_since_1970() -> None:
    async with standin_platform() as found:
        made = await found.project.create(CLAIMS, claim("a", {INSTANCES: 1}), "default")

        pending = values(made.status)["conditions"][0]
        assert (pending["type"], pending["status"]) == ("Granted", "False")
        assert pending["reason"] == "PendingEvaluation"
        assert pending["lastTransitionTime"].startswith("1970-01-01")


@pytest.mark.parametrize("count", [0, 21])
async def test_a_claim_has_one_to_twenty_requests(count: int) -> None:
    async with standin_platform() as found:
        body = claim("a", {f"example.com/{number}": 1 for number in range(count)})

        with pytest.raises(errors.Invalid, match=r"spec\.requests"):
            await found.project.create(CLAIMS, body, "default")


async def test_a_claim_requests_a_resource_type_only_once() -> None:
    async with standin_platform() as found:
        body = claim("a", {INSTANCES: 1})
        body["spec"]["requests"] *= 2

        with pytest.raises(errors.Invalid, match="Duplicate"):
            await found.project.create(CLAIMS, body, "default")


# Buckets and decisions


async def test_a_bucket_is_named_by_a_hash_in_namespace_milo_system() -> None:
    async with project(instances=1) as found:
        digest = sha256(f"{INSTANCES}Projectdemo".encode()).hexdigest()

        await until(found.project, BUCKETS, f"bucket-{digest}", "milo-system", lambda _: True)


async def test_grants_are_matched_by_kind_and_name_of_the_consumer_only() -> None:
    async with project(instances=2) as found:
        body = grant("elsewhere", {INSTANCES: 3})
        body["spec"]["consumerRef"]["apiGroup"] = "example.com"
        await found.project.create(GRANTS, body, "milo-system")
        await bucket(found, INSTANCES, limit=5)
        await found.project.create(
            GRANTS, grant("other", {INSTANCES: 9}, project="other"), "milo-system"
        )
        await settle()

        await bucket(found, INSTANCES, limit=5)


async def test_a_claim_without_a_consumer_belongs_to_its_project() -> None:
    async with judged(instances=1) as found:
        body = claim("a", {INSTANCES: 1})
        del body["spec"]["consumerRef"]
        await found.project.create(CLAIMS, body, "default")

        assert condition(await answer(found, "a"), "Granted") == AVAILABLE
        await bucket(found, INSTANCES, allocated=1)


async def test_only_one_of_two_claims_gets_the_last_slot() -> None:
    async with project(instances=3) as found:
        await create_claim(found, "holder", instances=2)
        await answer(found, "holder")
        await asyncio.gather(
            *(create_claim(found, name, instances=1) for name in ("left", "right"))
        )
        answers = [condition(await answer(found, name), "Granted") for name in ("left", "right")]

        assert sorted(answers) == sorted([AVAILABLE, EXCEEDED])
        await bucket(found, INSTANCES, limit=3, allocated=3, available=0, claimCount=2)


async def test_a_decision_is_never_made_again_even_when_the_claim_changes() -> None:
    async with project(instances=5) as found:
        await create_claim(found, "a", instances=1)
        await answer(found, "a")
        more = {"spec": {"requests": [{"resourceType": INSTANCES, "amount": 4}]}}
        await found.project.patch(CLAIMS, "a", merge(more), "default")
        await settle()

        kept = await found.project.get(CLAIMS, "a", "default")
        assert values(kept.status)["allocations"][0]["allocatedAmount"] == 1
        await bucket(found, INSTANCES, allocated=1)


async def test_a_request_added_to_a_claim_is_decided_alone() -> None:
    async with project(instances=5, memory=10) as found:
        await create_claim(found, "a", instances=1)
        await answer(found, "a")
        requests = [
            {"resourceType": INSTANCES, "amount": 1},
            {"resourceType": MEMORY, "amount": 11},
        ]
        await found.project.patch(CLAIMS, "a", merge({"spec": {"requests": requests}}), "default")
        denied = await until(
            found.project, CLAIMS, "a", "default", lambda one: condition(one, "Granted") == EXCEEDED
        )

        found_by_type = {one["resourceType"]: one for one in values(denied.status)["allocations"]}
        assert found_by_type[INSTANCES]["status"] == "Granted"
        assert found_by_type[MEMORY]["status"] == "Denied"


async def test_deleting_a_claim_releases_its_amounts() -> None:
    async with project(instances=1, memory=8) as found:
        await create_claim(found, "a", instances=1, memory=8)
        await answer(found, "a")
        await bucket(found, MEMORY, allocated=8)
        await found.project.delete(CLAIMS, "a", "default")
        await bucket(found, INSTANCES, allocated=0, available=1, claimCount=0)
        await create_claim(found, "b", instances=1, memory=8)

        assert condition(await answer(found, "b"), "Granted") == AVAILABLE


@pytest.mark.parametrize("by_policy", [True, False])
async def test_a_denied_claim_is_deleted_only_when_a_policy_created_it(by_policy: bool) -> None:
    async with project(instances=0) as found:
        body = claim("a", {INSTANCES: 1})
        body["metadata"]["labels"] = {"quota.miloapis.com/auto-created": "true"}
        creator = "claim-creation-plugin" if by_policy else "a-user"
        body["metadata"]["annotations"] = {"quota.miloapis.com/created-by": creator}
        await found.project.create(CLAIMS, body, "default")
        await bucket(found, INSTANCES, limit=0)
        await settle()

        assert await exists(found.project, CLAIMS, "a", "default") != by_policy


async def test_projects_have_separate_limits() -> None:
    async with project(instances=1) as found:
        await found.embedded.create_project("second")
        ready = {"conditions": [_ready(found)]}
        await found.root.patch(
            resourcemanager.PROJECTS, "second", merge({"status": ready}), subresource="status"
        )
        second = found.embedded.client("project/second")
        await second.create(GRANTS, grant("given", {INSTANCES: 7}, project="second"), "milo-system")
        digest = sha256(f"{INSTANCES}Projectsecond".encode()).hexdigest()
        await until(
            second,
            BUCKETS,
            f"bucket-{digest}",
            "milo-system",
            lambda one: values(one.status).get("limit") == 7,
        )

        await bucket(found, INSTANCES, limit=1)


def _ready(found: StandinPlatform) -> Values:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": found.env.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


# Admission of claims


async def test_a_claim_as_compute_makes_it_is_admitted() -> None:
    async with judged(instances=1) as found:
        await create_claim(found, "instance-a", instances=1)

        assert condition(await answer(found, "instance-a"), "Granted") == AVAILABLE


async def test_a_claim_for_an_unregistered_resource_type_is_forbidden() -> None:
    async with judged() as found:
        body = claim("a", {"compute.datumapis.com/disks": 1})
        refused = await refusal(found, body)

        assert 'spec.requests[0].resourceType: "compute.datumapis.com/disks"' in refused
        assert INSTANCES in refused
        await register(found.root, "disks")
        await found.project.create(
            CLAIMS, claim("a", {"compute.datumapis.com/disks": 1}), "default"
        )


async def test_a_claimant_of_a_kind_that_is_not_listed_is_forbidden() -> None:
    async with judged() as found:
        body = claim("a", {INSTANCES: 1})
        body["spec"]["resourceRef"] = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
        refused = await refusal(found, body)

        assert "apps/Deployment" in refused
        assert "compute.datumapis.com/Instance" in refused


async def test_a_consumer_of_another_kind_than_registered_is_forbidden() -> None:
    async with judged() as found:
        body = claim("a", {INSTANCES: 1})
        body["spec"]["consumerRef"]["kind"] = "Organization"

        assert "spec.consumerRef" in await refusal(found, body)


async def test_an_amount_of_zero_passes_the_schema_and_is_forbidden() -> None:
    async with standin_platform() as found:
        await found.project.create(CLAIMS, claim("a", {INSTANCES: 0}), "default", dry_run=True)
    async with judged() as found:
        assert "greater than 0" in await refusal(found, claim("a", {INSTANCES: 0}))


@pytest.mark.parametrize("field", ["kind", "name"])
async def test_a_claim_must_name_kind_and_name_of_its_claimant(field: str) -> None:
    async with judged() as found:
        body = claim("a", {INSTANCES: 1})
        body["spec"]["resourceRef"] = {**body["spec"]["resourceRef"], field: ""}

        assert f"spec.resourceRef.{field}" in await refusal(found, body)


async def test_only_new_claims_are_checked_against_registrations() -> None:
    async with judged(instances=1) as found:
        await create_claim(found, "a", instances=1)
        await answer(found, "a")
        await found.root.delete(REGISTRATIONS, "compute-instances")
        await asyncio.sleep(2)
        touch = {"metadata": {"labels": {"touched": "true"}}}

        await found.project.patch(CLAIMS, "a", merge(touch), "default")
        await refusal(found, claim("b", {INSTANCES: 1}))


# Grants by policy


def policy(name: str = "first-grant", **parts: Any) -> Values:
    return build(
        POLICIES,
        name,
        spec={
            "trigger": {
                "resource": {
                    "apiVersion": "resourcemanager.miloapis.com/v1alpha1",
                    "kind": "Project",
                },
                **parts.pop("trigger", {}),
            },
            "target": {
                "parentContext": {
                    "apiGroup": "resourcemanager.miloapis.com",
                    "kind": "Project",
                    "nameExpression": "trigger.metadata.name",
                },
                "resourceGrantTemplate": {
                    "metadata": {"name": "of-{{ trigger.metadata.name }}"},
                    "spec": {
                        "consumerRef": {
                            "apiGroup": "resourcemanager.miloapis.com",
                            "kind": "Project",
                            "name": "{{ trigger.metadata.name }}",
                        },
                        "allowances": [
                            {"resourceType": INSTANCES, "buckets": [{"amount": 10}]},
                        ],
                    },
                },
            },
            **parts,
        },
    )


async def given(found: StandinPlatform, name: str = "of-demo") -> Object:
    return await until(
        found.project,
        GRANTS,
        name,
        "milo-system",
        lambda one: condition(one, "Active") == ("True", "GrantActive"),
    )


async def test_a_policy_gives_every_project_its_first_grant() -> None:
    async with project() as found:
        await found.root.create(POLICIES, policy())
        made = await given(found)

        assert made.metadata.labels["quota.miloapis.com/policy"] == "first-grant"
        await bucket(found, INSTANCES, limit=10)
        ready = await found.root.get(POLICIES, "first-grant")
        assert condition(ready, "Ready") == ("True", "PolicyReady")
        assert condition(ready, "ParentContextReady") == ("True", "ParentContextReady")


async def test_a_project_created_later_gets_its_grant() -> None:
    async with project() as found:
        await found.root.create(POLICIES, policy())
        await found.embedded.create_project("late")
        ready = {"conditions": [_ready(found)]}
        await found.root.patch(
            resourcemanager.PROJECTS, "late", merge({"status": ready}), subresource="status"
        )

        late = found.embedded.client("project/late")
        await until(late, GRANTS, "of-late", "milo-system", lambda _: True)


async def test_a_grant_follows_its_policy() -> None:
    async with project() as found:
        await found.root.create(POLICIES, policy())
        await given(found)
        wider = policy()["spec"]
        allowance = wider["target"]["resourceGrantTemplate"]["spec"]["allowances"][0]
        allowance["buckets"] = [{"amount": 25}]
        await found.root.patch(POLICIES, "first-grant", merge({"spec": wider}))

        await bucket(found, INSTANCES, limit=25)


async def test_a_project_that_does_not_meet_the_constraints_has_no_grant() -> None:
    async with project() as found:
        constraint = {"expression": 'trigger.metadata.labels["tier"] == "paid"'}
        await found.root.create(POLICIES, policy(trigger={"constraints": [constraint]}))
        await settle()
        assert not await exists(found.project, GRANTS, "of-demo", "milo-system")
        for tier in ("paid", "free"):
            label = merge({"metadata": {"labels": {"tier": tier}}})
            await found.root.patch(resourcemanager.PROJECTS, "demo", label)
            if tier == "paid":
                await given(found)

        await until_gone(found.project, GRANTS, "of-demo", "milo-system")


async def test_a_disabled_policy_creates_no_grants_and_removes_none() -> None:
    async with project() as found:
        await found.root.create(POLICIES, policy())
        await given(found)
        await found.root.patch(POLICIES, "first-grant", merge({"spec": {"disabled": True}}))
        await until(
            found.root,
            POLICIES,
            "first-grant",
            "",
            lambda one: condition(one, "Ready") == ("False", "PolicyDisabled"),
        )
        await found.project.delete(GRANTS, "of-demo", "milo-system")
        await settle()

        assert not await exists(found.project, GRANTS, "of-demo", "milo-system")


async def test_a_policy_that_cannot_be_applied_reports_why() -> None:
    async with project() as found:
        odd = policy(trigger={"constraints": [{"expression": "trigger.metadata.name.size() > 3"}]})
        await found.root.create(POLICIES, odd)
        refused = await until(
            found.root,
            POLICIES,
            "first-grant",
            "",
            lambda one: condition(one, "Ready") == ("False", "ValidationFailed"),
        )

        assert "size()" in bytes(refused.status).decode()
        assert not await exists(found.project, GRANTS, "of-demo", "milo-system")


TRIGGER = {"metadata": {"name": "demo", "labels": {"a.b/tier": "paid"}}, "spec": {"n": 3}}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("trigger.metadata.name", "demo"),
        (" trigger.metadata.labels['a.b/tier'] ", "paid"),
        ("trigger.spec.n", "3"),
        ("trigger.metadata.missing.deeper", ""),
        ("'text'", "text"),
    ],
)
def test_an_expression_is_a_field_of_the_trigger_or_a_literal(
    expression: str, expected: str
) -> None:
    assert evaluate(expression, TRIGGER) == expected
    assert render(f"<{{{{ {expression} }}}}>", TRIGGER) == f"<{expected}>"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("trigger.metadata.name == 'demo'", True),
        ("trigger.metadata.name != 'demo'", False),
        ("trigger.metadata.name == 'demo' && trigger.spec.n == '3'", True),
        ("trigger.metadata.name == 'demo' && trigger.spec.n != '3'", False),
    ],
)
def test_a_constraint_compares_a_field_with_a_literal(expression: str, expected: bool) -> None:
    assert holds(expression, TRIGGER) == expected


@pytest.mark.parametrize(
    "expression", ["trigger", "trigger.metadata.name + 'x'", "has(trigger.spec)", "", "'it''s'"]
)
def test_an_unsupported_expression_is_an_error(expression: str) -> None:
    for read in (evaluate, holds):
        with pytest.raises(ExpressionError):
            read(expression, TRIGGER)
