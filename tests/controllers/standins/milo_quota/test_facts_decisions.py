"""Buckets, and the decision on a claim.

What is known of Milo's quota and the stand-in keeps, one fact a test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest

from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.milo_projects import project_controllers
from tests.support.objects import condition, exists, until
from tests.support.standins.platform import claim, grant, running, settle
from tests.support.standins.quota import (
    AVAILABLE,
    BUCKETS,
    CLAIMS,
    EXCEEDED,
    GRANTS,
    INSTANCES,
    MEMORY,
    answer,
    bucket,
    create_claim,
    project,
)


async def test_a_bucket_is_named_by_a_hash_in_namespace_milo_system() -> None:
    async with project(instances=1) as found:
        digest = sha256(f"{INSTANCES}Projectdemo".encode()).hexdigest()

        await until(found.project, BUCKETS, f"bucket-{digest}", "milo-system", lambda _: True)


async def test_a_bucket_has_the_kind_and_the_name_of_its_consumer_as_labels() -> None:
    async with project(instances=1) as found:
        await bucket(found, INSTANCES, limit=1)

        selector = "quota.miloapis.com/consumer-kind=Project,quota.miloapis.com/consumer-name=demo"
        listed = await found.project.list(BUCKETS, label_selector=selector)
        assert len(listed.items) == 1


async def test_claims_of_an_organization_are_answered_in_its_own_namespace() -> None:
    async with project() as found:
        planes = project_controllers(
            found.root_fleet(), lambda name: found.embedded.client(f"project/{name}"), found.env
        )
        async with running(found.env, planes):
            body = claim("a", {INSTANCES: 1})
            consumer = {**body["spec"]["consumerRef"], "kind": "Organization", "name": "local"}
            body["spec"]["consumerRef"] = consumer
            await found.project.create(CLAIMS, body, "default")

            assert condition(await answer(found, "a"), "Granted") == EXCEEDED
            listed = await found.project.list(BUCKETS, "organization-local")
            assert len(listed.items) == 1


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
    async with project(judged=True, instances=1) as found:
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
        await found.set_project_ready("second")
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
