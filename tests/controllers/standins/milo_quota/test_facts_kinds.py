"""Registrations, grants, buckets and claims, each by itself.

What is known of Milo's quota and the stand-in keeps, one fact a test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import Values, values
from tests.support.objects import condition, message, until
from tests.support.standins.platform import (
    claim,
    grant,
    register,
    registration,
    settle,
    standin_platform,
)
from tests.support.standins.quota import (
    CLAIMS,
    GRANTS,
    INSTANCES,
    REGISTRATIONS,
    bucket,
    project,
)


async def test_a_registration_becomes_active() -> None:
    async with project(judged=True) as found:
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
        {"type": "Switch"},
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


async def test_a_registration_may_be_a_feature() -> None:
    async with standin_platform() as found:
        await found.root.create(REGISTRATIONS, registration("instances", type="Feature"))


async def test_a_registration_with_a_kind_twice_does_not_count_and_says_which() -> None:
    async with project(judged=True) as found:
        twice = [{"apiGroup": "a.example", "kind": "A"}, {"apiGroup": "b.example", "kind": "B"}]
        body = registration("widgets", claimingResources=[*twice, twice[0]])
        await found.root.create(REGISTRATIONS, body)

        refused = await until(
            found.root,
            REGISTRATIONS,
            "compute-widgets",
            "",
            lambda one: condition(one, "Active") == ("False", "ValidationFailed"),
        )
        assert message(refused, "Active") == (
            'spec.claimingResources[2]: Duplicate value: "a.example/A"'
        )
        await found.root.delete(REGISTRATIONS, "compute-widgets")
        await found.root.create(REGISTRATIONS, registration("widgets", claimingResources=twice))
        await until(
            found.root,
            REGISTRATIONS,
            "compute-widgets",
            "",
            lambda one: condition(one, "Active") == ("True", "RegistrationActive"),
        )


@pytest.mark.parametrize("count", [0, 21])
async def test_a_grant_has_one_to_twenty_allowances_of_zero_or_more(count: int) -> None:
    async with standin_platform() as found:
        for amounts in ({f"a/{i}": 1 for i in range(count)}, {INSTANCES: -1}):
            with pytest.raises(errors.Invalid):
                await found.project.create(GRANTS, grant("bad", amounts), "milo-system")
        await found.project.create(GRANTS, grant("good", {INSTANCES: 0}), "milo-system")


async def test_a_second_registration_of_a_resource_type_does_not_count() -> None:
    async with project(judged=True) as found:
        again = registration("instances")
        again["metadata"]["name"] = "compute-instances-again"
        await asyncio.sleep(1)
        await found.root.create(REGISTRATIONS, again)
        await until(
            found.root,
            REGISTRATIONS,
            "compute-instances-again",
            "",
            lambda one: (
                condition(one, "Active") == ("False", "ValidationFailed")
                and message(one, "Active").startswith("spec.resourceType: ")
            ),
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
