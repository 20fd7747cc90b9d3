"""Which claims are admitted.

What is known of Milo's quota and the stand-in keeps, one fact a test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import Values
from tests.support.objects import condition
from tests.support.standins.platform import StandinPlatform, claim, register, standin_platform
from tests.support.standins.quota import (
    AVAILABLE,
    CLAIMS,
    INSTANCES,
    REGISTRATIONS,
    answer,
    create_claim,
    project,
)


async def refusal(found: StandinPlatform, body: Values) -> str:
    with pytest.raises(errors.Forbidden) as refused:
        await found.project.create(CLAIMS, body, "default")
    return str(refused.value)


async def test_a_claim_as_compute_makes_it_is_admitted() -> None:
    async with project(judged=True, instances=1) as found:
        await create_claim(found, "instance-a", instances=1)

        assert condition(await answer(found, "instance-a"), "Granted") == AVAILABLE


async def test_a_claim_for_an_unregistered_resource_type_is_forbidden() -> None:
    async with project(judged=True) as found:
        body = claim("a", {"compute.datumapis.com/disks": 1})
        refused = await refusal(found, body)

        assert 'spec.requests[0].resourceType: "compute.datumapis.com/disks"' in refused
        assert INSTANCES in refused
        await register(found.root, "disks")
        await found.project.create(
            CLAIMS, claim("a", {"compute.datumapis.com/disks": 1}), "default"
        )


async def test_a_claimant_of_a_kind_that_is_not_listed_is_forbidden() -> None:
    async with project(judged=True) as found:
        body = claim("a", {INSTANCES: 1})
        body["spec"]["resourceRef"] = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
        refused = await refusal(found, body)

        assert "apps/Deployment" in refused
        assert "compute.datumapis.com/Instance" in refused


async def test_a_consumer_of_another_kind_than_registered_is_forbidden() -> None:
    async with project(judged=True) as found:
        body = claim("a", {INSTANCES: 1})
        body["spec"]["consumerRef"]["kind"] = "Organization"

        assert "spec.consumerRef" in await refusal(found, body)


async def test_an_amount_of_zero_passes_the_schema_and_is_forbidden() -> None:
    async with standin_platform() as found:
        await found.project.create(CLAIMS, claim("a", {INSTANCES: 0}), "default", dry_run=True)
    async with project(judged=True) as found:
        assert "greater than 0" in await refusal(found, claim("a", {INSTANCES: 0}))


@pytest.mark.parametrize("field", ["kind", "name"])
async def test_a_claim_must_name_kind_and_name_of_its_claimant(field: str) -> None:
    async with project(judged=True) as found:
        body = claim("a", {INSTANCES: 1})
        body["spec"]["resourceRef"] = {**body["spec"]["resourceRef"], field: ""}

        assert f"spec.resourceRef.{field}" in await refusal(found, body)


async def test_only_new_claims_are_checked_against_registrations() -> None:
    async with project(judged=True, instances=1) as found:
        await create_claim(found, "a", instances=1)
        await answer(found, "a")
        await found.root.delete(REGISTRATIONS, "compute-instances")
        await asyncio.sleep(2)
        touch = {"metadata": {"labels": {"touched": "true"}}}

        await found.project.patch(CLAIMS, "a", merge(touch), "default")
        await refusal(found, claim("b", {INSTANCES: 1}))
