"""Quota that is denied, lost or unreachable, seen by an Instance of a cell.

The test acts as quota and as the provider.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from tests.support.client.intercepted_transport import CUT
from tests.support.controllers.cell_instances import (
    CLAIM,
    DEPLOYMENT,
    GRANTED,
    NAME,
    answer_claim,
    claim_of,
    controller,
    create,
    create_prerequisites,
    given_bucket,
    set_available,
    until_instance_shows,
)
from tests.support.controllers.planes import NAMESPACE, controller_planes, set_condition, settle
from tests.support.objects import condition, find, message, until_gone


async def test_a_denied_claim_is_released_and_recreated_when_quota_is_available() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        buckets = [await given_bucket(w, name, 0) for name in ("instances", "vcpus", "memory")]
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w, "False", "QuotaExceeded")
            denied = (
                ("QuotaGranted", "False", "QuotaExceeded"),
                ("Ready", "False", "PendingQuota"),
                ("Programmed", "False", "PendingQuota"),
            )
            await until_instance_shows(w, *denied, gates="Quota")
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await settle(120)
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is None

            for bucket in buckets:
                await set_available(w, bucket, 10_000)
            await claim_of(w)
            await settle(10)
            await until_instance_shows(w, *denied, gates="Quota")

            await answer_claim(w)
            found = await until_instance_shows(w, GRANTED, ("Ready", "False", "PendingProgramming"))
            assert condition(found, "Programmed") == ("Unknown", "Pending")


async def test_of_two_denied_instances_the_lower_ordinal_claims_again_first() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w, replicas=2)
        buckets = [await given_bucket(w, name, 0) for name in ("instances", "vcpus", "memory")]
        async with w.running(controller(w)):
            for ordinal in (1, 0):
                await create(w, ordinal=ordinal)
                name = f"instance-{DEPLOYMENT}-{ordinal}"
                claim = await claim_of(w, name)
                await set_condition(
                    w, w.project, quota.RESOURCE_CLAIMS, claim, "Granted", "False", "QuotaExceeded"
                )
                await until_gone(w.project, quota.RESOURCE_CLAIMS, name, NAMESPACE)
            for bucket, room in zip(buckets, (1, 1000, 2048), strict=True):
                await set_available(w, bucket, room)
            await claim_of(w, f"instance-{DEPLOYMENT}-0")
            await settle()
            claims = (await w.project.list(quota.RESOURCE_CLAIMS)).items

        assert [claim.name for claim in claims] == [f"instance-{DEPLOYMENT}-0"]


async def test_a_grant_is_sticky_and_a_lost_claim_is_recreated() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            await w.project.delete(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await claim_of(w)
            await answer_claim(w, "False", "QuotaExceeded")
            await settle()
            await until_instance_shows(w, GRANTED)
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None


async def test_a_granted_instance_with_a_denied_new_claim_claims_again_when_quota_is_free() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        buckets = [await given_bucket(w, name, 0) for name in ("instances", "vcpus", "memory")]
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            await w.project.delete(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            denied = await answer_claim(w, "False", "QuotaExceeded")
            await settle(300)
            assert (await claim_of(w)).metadata.uid == denied.metadata.uid

            for bucket in buckets:
                await set_available(w, bucket, 10_000)
            await settle(120)

            assert (await claim_of(w)).metadata.uid != denied.metadata.uid
            await until_instance_shows(w, GRANTED)


async def test_a_lost_claim_is_recreated_although_the_first_attempt_failed() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked("project/demo")
        async with w.running(controller(w, project=client)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            link.rules.append(CUT)
            await w.project.delete(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
            await settle(1)
            link.rules.remove(CUT)
            await settle(120)

            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None


async def test_an_unreachable_project_is_reported_and_retried() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        client, link = w.linked("project/demo")
        link.rules.append(CUT)
        async with w.running(controller(w, project=client)):
            await create(w)
            await until_instance_shows(
                w, ("QuotaGranted", "False", "QuotaBackendUnavailable"), gates="Quota"
            )
            link.rules.remove(CUT)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)


async def test_a_claim_of_another_cell_is_never_touched() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        body = {
            "metadata": {
                "name": CLAIM,
                "labels": {
                    compute.LABEL_SOURCE_CLUSTER: "lhr",
                    compute.LABEL_INSTANCE_NAMESPACE: w.hub_namespace,
                },
            },
            "spec": {
                "requests": [{"resourceType": "compute.datumapis.com/instances", "amount": 1}],
                "resourceRef": {"kind": "Project", "name": "demo"},
            },
        }
        theirs = await w.project.create(quota.RESOURCE_CLAIMS, body, NAMESPACE)
        async with w.running(controller(w)):
            await create(w)
            found = await until_instance_shows(
                w, ("QuotaGranted", "False", "QuotaMisconfigured"), gates="Quota"
            )
            assert "lhr" in message(found, "QuotaGranted")
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)

        kept = await w.project.get(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)
        assert kept.metadata.resource_version == theirs.metadata.resource_version
