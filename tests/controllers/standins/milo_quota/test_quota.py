"""Grants, buckets and claims in a project plane."""

from __future__ import annotations

import asyncio
from typing import Any

from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.milo_quota.allocation import USAGE_SECONDS
from datum_compute.standins.milo_quota.budget import Consumer
from tests.support.objects import condition, until
from tests.support.standins.platform import (
    StandinPlatform,
    grant,
    register,
    revisions,
    running,
    settle,
    standin_platform,
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

VCPUS = "compute.datumapis.com/vcpus"


async def test_an_active_grant_creates_its_buckets() -> None:
    async with project(instances=10, vcpus=4000) as found:
        await bucket(found, INSTANCES, limit=10, allocated=0, available=10, grantCount=1)
        await bucket(found, VCPUS, limit=4000)


async def test_the_limit_is_the_sum_of_all_active_grants() -> None:
    async with project(instances=10) as found:
        await give(found, "more", instances=5)
        await bucket(found, INSTANCES, limit=15, grantCount=2)
        await found.project.delete(quota.RESOURCE_GRANTS, "given", "milo-system")

        await bucket(found, INSTANCES, limit=5, grantCount=1)


async def test_an_invalid_grant_is_not_active_and_adds_nothing_to_the_limit() -> None:
    async with project(instances=1) as found:
        body = grant("twice", {INSTANCES: 5})
        body["spec"]["allowances"] *= 2
        await found.project.create(quota.RESOURCE_GRANTS, body, "milo-system")
        await until(
            found.project,
            quota.RESOURCE_GRANTS,
            "twice",
            "milo-system",
            lambda one: condition(one, "Active") == ("False", quota.REASON_VALIDATION_FAILED),
        )

        await bucket(found, INSTANCES, limit=1)


async def test_a_claim_that_fits_is_granted_with_its_allocations() -> None:
    async with project(instances=10, vcpus=4000) as found:
        await create_claim(found, "instance-a", instances=1, vcpus=1000)
        granted = await answer(found, "instance-a")

        assert condition(granted, "Granted") == AVAILABLE
        allocations = {one["resourceType"]: one for one in values(granted.status)["allocations"]}
        assert allocations[VCPUS]["status"] == "Granted"
        assert allocations[VCPUS]["allocatedAmount"] == 1000
        name = Consumer("Project", "demo").bucket_name(VCPUS)
        assert allocations[VCPUS]["allocatingBucket"] == name
        await bucket(found, INSTANCES, allocated=1, available=9, claimCount=1)
        await bucket(found, VCPUS, allocated=1000, available=3000, claimCount=1)


async def test_a_claim_costs_one_write_besides_its_buckets() -> None:
    async with project(instances=10, vcpus=4000, memory=8192) as found:
        await create_claim(found, "instance-a", instances=1, vcpus=1000, memory=2048)
        created = await found.project.get(quota.RESOURCE_CLAIMS, "instance-a", "default")
        await answer(found, "instance-a")
        await settle()

        kinds = [quota.RESOURCE_CLAIMS, quota.ALLOWANCE_BUCKETS]
        written = await revisions([found.project], kinds)
        newer = [
            key
            for key, revision in written.items()
            if int(revision) > int(created.metadata.resource_version)
        ]
        assert len(newer) == 4
        latest = max(int(revision) for revision in written.values())
        assert latest - int(created.metadata.resource_version) == 4


async def test_pending_claims_are_decided_with_one_write_of_the_bucket() -> None:
    async with standin_platform() as found:
        await found.set_project_ready()
        await register(found.root)
        await found.project.create(
            quota.RESOURCE_GRANTS, grant("given", {INSTANCES: 50}), "milo-system"
        )
        async with running(found.env, controllers(found)):
            await bucket(found, INSTANCES, limit=50)
        for number in range(20):
            await create_claim(found, f"instance-{number}", instances=1)
        before = await found.project.get(quota.RESOURCE_CLAIMS, "instance-19", "default")
        async with running(found.env, controllers(found)):
            await bucket(found, INSTANCES, allocated=20, claimCount=20)
            await settle()
        kinds = [quota.RESOURCE_CLAIMS, quota.ALLOWANCE_BUCKETS]
        latest = max(int(one) for one in (await revisions([found.project], kinds)).values())

        assert latest - int(before.metadata.resource_version) == 20 + 1


async def test_a_bucket_merges_many_grants_into_few_writes_and_reports_the_last() -> None:
    async with project(instances=50) as found:
        await bucket(found, INSTANCES, limit=50)
        before = await revision_of_bucket(found)
        for number in range(20):
            await create_claim(found, f"instance-{number}", instances=1)
            await asyncio.sleep(USAGE_SECONDS / 25)
        for number in range(20):
            assert condition(await answer(found, f"instance-{number}"), "Granted") == AVAILABLE
        await asyncio.sleep(USAGE_SECONDS)
        await bucket(found, INSTANCES, allocated=20, claimCount=20, available=30)

        # Twenty claims of two writes each; the rest are the bucket's.
        assert await revision_of_bucket(found) - before <= 2 * 20 + 2


async def revision_of_bucket(found: StandinPlatform) -> int:
    name = Consumer("Project", "demo").bucket_name(INSTANCES)
    obj = await found.project.get(quota.ALLOWANCE_BUCKETS, name, "milo-system")
    return int(obj.metadata.resource_version)


async def test_a_bucket_never_shows_room_for_a_claim_that_was_denied() -> None:
    """A denied claimant tries again when a bucket has room."""
    async with project(instances=2) as found:
        await bucket(found, INSTANCES, limit=2)
        shown: list[int] = []

        def note(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
            if table.resource != quota.RESOURCE_CLAIMS.group_resource:
                return
            if condition(Object.from_wire(event.after.raw), "Granted") == EXCEEDED:
                name = Consumer("Project", "demo").bucket_name(INSTANCES)
                rows = plane.table(quota.ALLOWANCE_BUCKETS.group_resource)
                stored = rows.get("milo-system", name)
                assert stored is not None
                shown.append(values(Object.from_wire(stored.raw).status)["available"])

        found.embedded.store.subscribe(note)
        for name in ("instance-a", "instance-b", "instance-c"):
            await create_claim(found, name, instances=1)
            await asyncio.sleep(USAGE_SECONDS / 25)
        assert condition(await answer(found, "instance-c"), "Granted") == EXCEEDED

        assert shown[:1] == [0]


async def test_a_denial_is_final_even_when_quota_becomes_free() -> None:
    async with project(instances=1) as found:
        await create_claim(found, "instance-a", instances=1)
        await answer(found, "instance-a")
        await create_claim(found, "instance-b", instances=1)
        assert condition(await answer(found, "instance-b"), "Granted") == EXCEEDED
        await found.project.delete(quota.RESOURCE_CLAIMS, "instance-a", "default")
        await give(found, "more", instances=5)
        await bucket(found, INSTANCES, limit=6, allocated=0)
        touch = {"metadata": {"labels": {"touched": "true"}}}
        await found.project.patch(quota.RESOURCE_CLAIMS, "instance-b", merge(touch), "default")
        await settle()

        denied = await found.project.get(quota.RESOURCE_CLAIMS, "instance-b", "default")
        assert condition(denied, "Granted") == EXCEEDED
        await found.project.delete(quota.RESOURCE_CLAIMS, "instance-b", "default")
        await create_claim(found, "instance-b", instances=1)
        assert condition(await answer(found, "instance-b"), "Granted") == AVAILABLE


async def test_a_claim_before_any_grant_is_denied_by_a_bucket_without_budget() -> None:
    async with project() as found:
        await create_claim(found, "instance-a", instances=1)

        assert condition(await answer(found, "instance-a"), "Granted") == EXCEEDED
        await bucket(found, INSTANCES, limit=0, allocated=0)


async def test_a_claim_denied_by_one_bucket_keeps_what_another_gave_until_it_is_deleted() -> None:
    async with project(instances=0, memory=8192) as found:
        await create_claim(found, "instance-a", instances=1, memory=4096)
        denied = await answer(found, "instance-a")

        assert condition(denied, "Granted") == EXCEEDED
        await bucket(found, MEMORY, allocated=4096)
        await found.project.delete(quota.RESOURCE_CLAIMS, "instance-a", "default")
        await bucket(found, MEMORY, allocated=0, claimCount=0)


async def test_a_claim_held_by_a_finalizer_keeps_its_amount_until_it_is_gone() -> None:
    async with project(instances=1) as found:
        await create_claim(found, "instance-a", instances=1)
        await answer(found, "instance-a")
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await found.project.patch(quota.RESOURCE_CLAIMS, "instance-a", merge(hold), "default")
        await found.project.delete(quota.RESOURCE_CLAIMS, "instance-a", "default")
        await settle()
        await bucket(found, INSTANCES, allocated=1)
        release: dict[str, Any] = {"metadata": {"finalizers": []}}
        await found.project.patch(quota.RESOURCE_CLAIMS, "instance-a", merge(release), "default")

        await bucket(found, INSTANCES, allocated=0)


async def test_a_claim_is_counted_once_after_a_crash_between_bucket_and_claim() -> None:
    async with standin_platform() as found:
        await found.set_project_ready()
        await register(found.root)
        await found.project.create(
            quota.RESOURCE_GRANTS, grant("given", {INSTANCES: 1}), "milo-system"
        )
        deaths: list[int] = []

        def crash() -> None:
            if len(deaths) < 3:
                deaths.append(1)
                raise RuntimeError("killed here")

        async with running(found.env, controllers(found)):
            await bucket(found, INSTANCES, limit=1)
            found.env.on_fault("quota.after-reservation", crash)
            await create_claim(found, "instance-a", instances=1)
            granted = await answer(found, "instance-a")

        assert len(deaths) == 3
        assert condition(granted, "Granted") == AVAILABLE
        await bucket(found, INSTANCES, allocated=1, available=0)


async def test_a_restart_writes_nothing_and_counts_existing_claims() -> None:
    async with standin_platform() as found:
        await found.set_project_ready()
        await register(found.root)
        kinds = [quota.RESOURCE_CLAIMS, quota.ALLOWANCE_BUCKETS, quota.RESOURCE_GRANTS]
        async with running(found.env, controllers(found)):
            await give(found, "given", instances=2)
            await create_claim(found, "instance-a", instances=1)
            await answer(found, "instance-a")
            await settle()
        before = await revisions([found.project], kinds)
        async with running(found.env, controllers(found)):
            await settle()
            after = await revisions([found.project], kinds)
            await create_claim(found, "instance-b", instances=2)
            denied = await answer(found, "instance-b")

        assert before == after
        assert condition(denied, "Granted") == EXCEEDED
