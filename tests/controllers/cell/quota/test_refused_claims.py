"""An invalid claim is released, and recreated when its buckets or their grants change.

The test acts as quota.
"""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api.meta import Object
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client.protocol import EventType, merge
from datum_compute.client.transport import HttpRequest
from datum_compute.controllers.cell.instance import instance_controller
from tests.support.client.intercepted_transport import (
    Rule,
    SentRequest,
    has_method,
    is_write,
    record,
    refuse,
)
from tests.support.controllers.cell_instances import (
    CLAIM,
    DEPLOYMENT,
    GRANTED,
    answer_claim,
    claim_of,
    controller,
    create,
    create_prerequisites,
    given_bucket,
    set_available,
    until_instance_shows,
)
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    controller_planes,
    set_condition,
    settle,
)
from tests.support.objects import find, until_gone

INVALID = ("QuotaGranted", "False", "ValidationFailed")
KINDS = ("instances", "vcpus", "memory")


async def buckets(w: ControllerPlanes, room: int = 10_000) -> list[Object]:
    return [await given_bucket(w, name, room) for name in KINDS]


async def grants_change(w: ControllerPlanes, bucket: Object) -> None:
    """The same limit, fed by another grant."""
    refs = [{"name": "another", "lastObservedGeneration": 1, "amount": 10_000}]
    body = {"status": {"grantCount": 1, "contributingGrantRefs": refs}}
    await w.project.patch(
        quota.ALLOWANCE_BUCKETS, bucket.name, merge(body), bucket.namespace, subresource="status"
    )


async def test_an_invalid_claim_is_released_and_not_recreated_while_nothing_changes() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        await buckets(w)
        client, link = w.linked("project/demo")
        writes: list[SentRequest] = []
        link.rules.append(Rule(record(writes), is_write))
        async with w.running(controller(w, project=client)):
            await create(w)
            await answer_claim(w, "False", "ValidationFailed")
            await until_instance_shows(
                w, INVALID, ("Ready", "False", "PendingQuota"), gates="Quota"
            )
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await settle(60)
            before = len(writes)
            await settle(24 * 3600)

            assert len(writes) == before, "there is room, and still it must not poll"
            await until_instance_shows(w, INVALID, gates="Quota")


async def test_an_invalid_claim_is_recreated_when_another_grant_fills_its_bucket() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        known = await buckets(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w, "False", "ValidationFailed")
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await settle(3600)
            await grants_change(w, known[1])
            await claim_of(w)
            await until_instance_shows(w, INVALID, gates="Quota")
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)


async def test_an_invalid_claim_is_recreated_when_its_missing_bucket_appears() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        for name in KINDS[:2]:
            await given_bucket(w, name, 10_000)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w, "False", "ValidationFailed")
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await settle(3600)
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is None
            await given_bucket(w, KINDS[2], 10_000)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)


async def test_usage_by_others_does_not_recreate_an_invalid_claim() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        known = await buckets(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w, "False", "ValidationFailed")
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            for available in (9_000, 3_000, 10_000):
                body = {"status": {"available": available, "allocated": 10_000 - available}}
                await w.project.patch(
                    quota.ALLOWANCE_BUCKETS,
                    known[0].name,
                    merge(body),
                    known[0].namespace,
                    subresource="status",
                )
                await settle(600)
                assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is None


async def test_a_restarted_manager_recreates_an_invalid_claim_once() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        await buckets(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w, "False", "ValidationFailed")
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
        async with w.running(controller(w)):
            await answer_claim(w, "False", "ValidationFailed")
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await settle(3600)
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is None


async def test_an_invalid_claim_does_not_keep_a_denied_one_from_claiming_again() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w, replicas=2)
        known = await buckets(w, 0)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w, "False", "ValidationFailed")
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            other = f"instance-{DEPLOYMENT}-1"
            await create(w, ordinal=1)
            claim = await claim_of(w, other)
            await set_condition(
                w, w.project, quota.RESOURCE_CLAIMS, claim, "Granted", "False", "QuotaExceeded"
            )
            await until_gone(w.project, quota.RESOURCE_CLAIMS, other, NAMESPACE)
            for bucket, room in zip(known, (1, 1000, 2048), strict=True):
                await set_available(w, bucket, room)
            # The first is claimed again, as its buckets have changed, and is still invalid.
            await answer_claim(w, "False", "ValidationFailed")
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await claim_of(w, other)


async def test_the_claim_of_a_running_instance_is_recreated_in_the_same_way() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        known = await buckets(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            await w.project.delete(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await answer_claim(w, "False", "ValidationFailed")
            await settle(600)
            refused = await claim_of(w)
            await settle(24 * 3600)
            assert (await claim_of(w)).metadata.uid == refused.metadata.uid
            await grants_change(w, known[0])
            await settle(600)
            assert (await claim_of(w)).metadata.uid != refused.metadata.uid
            await until_instance_shows(w, GRANTED)


async def deny_everything(w: ControllerPlanes) -> None:
    async with w.project.watch(quota.RESOURCE_CLAIMS, NAMESPACE) as events:
        async for event in events:
            if event.type is EventType.ADDED:
                await set_condition(
                    w,
                    w.project,
                    quota.RESOURCE_CLAIMS,
                    event.object,
                    "Granted",
                    "False",
                    "QuotaExceeded",
                )


@pytest.mark.parametrize("runs", [False, True])
async def test_buckets_with_stale_usage_cause_no_storm_of_claims(runs: bool) -> None:
    """Their usage is stale: each claim is denied as soon as it is created."""
    async with controller_planes() as w:
        await create_prerequisites(w)
        await buckets(w)
        client, link = w.linked("project/demo")
        creates: list[SentRequest] = []
        link.rules.append(Rule(record(creates), has_method("POST")))
        async with w.running(controller(w, project=client)):
            await create(w)
            if runs:
                await answer_claim(w)
                await until_instance_shows(w, GRANTED)
                await w.project.delete(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            naysayer = asyncio.create_task(deny_everything(w))
            await settle(30)
            naysayer.cancel()

            assert 2 <= len(creates) <= 40


def is_instance_status(request: HttpRequest) -> bool:
    is_report = request.method != "GET" and request.path.endswith("/status")
    return is_report and "/instances/" in request.path


async def test_denials_that_cannot_be_stored_cause_no_storm_of_claims() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        await buckets(w)
        project, project_link = w.linked("project/demo")
        creates: list[SentRequest] = []
        project_link.rules.append(Rule(record(creates), has_method("POST")))
        cell, cell_link = w.linked("cell/dfw")
        cell_link.rules.append(Rule(refuse(409, "Conflict"), is_instance_status))
        instances = instance_controller(
            w.cell_fleet(cell), w.env, hub=None, projects=w.projects(project), cluster_name="dfw"
        )
        async with w.running(instances):
            naysayer = asyncio.create_task(deny_everything(w))
            await create(w)
            await settle(30)
            naysayer.cancel()

            assert 2 <= len(creates) <= 40
