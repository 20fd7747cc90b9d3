"""An entitlement is approved at once, after a delay, or manually."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.api.meta import Object
from datum_compute.api.services import v1alpha1 as services
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from datum_compute.standins.milo_entitlements import Approval, entitlement_controllers
from tests.support.objects import condition
from tests.support.standins.platform import StandinPlatform, running, standin_platform

ENTITLEMENTS = services.SERVICE_ENTITLEMENTS


async def settle(seconds: float = 3) -> None:
    await asyncio.sleep(seconds)


async def publish(found: StandinPlatform, phase: str = services.PHASE_PUBLISHED) -> None:
    spec = {
        "serviceName": services.SERVICE_COMPUTE_NAME,
        "phase": phase,
        "displayName": "Compute",
        "owner": {"producerProjectRef": {"name": "demo"}},
    }
    body = {"metadata": {"name": "compute"}, "spec": spec}
    await found.root.create(services.SERVICES, body)


async def request_entitlement(found: StandinPlatform, service: str = "compute") -> None:
    spec = {"serviceRef": {"name": service}}
    await found.project.create(ENTITLEMENTS, {"metadata": {"name": "compute"}, "spec": spec})


async def status(found: StandinPlatform) -> dict[str, Any]:
    return values((await entitlement(found)).status)


async def entitlement(found: StandinPlatform) -> Object:
    return await found.project.get(ENTITLEMENTS, "compute")


async def ready(found: StandinPlatform) -> Any:
    return condition(await entitlement(found), "Ready")


def controllers(found: StandinPlatform, approval: Approval | None = None) -> Any:
    return entitlement_controllers(found.project_fleet(), found.root_fleet(), found.env, approval)


async def test_a_request_is_approved_at_once() -> None:
    async with standin_platform() as found:
        await found.set_project_ready()
        await publish(found)
        async with running(found.env, controllers(found)):
            await request_entitlement(found)
            await settle()

            reported = await status(found)
            assert reported["phase"] == "Active"
            assert reported["origin"] == "Direct"
            assert reported["serviceName"] == "compute.datumapis.com"
            assert reported["entitledAt"]
            assert reported["observedGeneration"] == 1
            assert await ready(found) == ("True", "EntitlementActive")


async def test_an_approval_takes_its_delay_also_over_a_restart() -> None:
    async with standin_platform() as found:
        await found.set_project_ready()
        await publish(found)
        slow = Approval(seconds=60)
        async with running(found.env, controllers(found, slow)):
            await request_entitlement(found)
            await settle(30)
            assert (await status(found))["phase"] == "PendingApproval"
            assert await ready(found) == ("False", "EntitlementPendingApproval")
        async with running(found.env, controllers(found, slow)):
            await settle(20)
            assert (await status(found))["phase"] == "PendingApproval"
            await settle(20)
            assert await ready(found) == ("True", "EntitlementActive")


async def test_a_manual_approval_and_rejection_are_kept() -> None:
    async with standin_platform() as found:
        await found.set_project_ready()
        await publish(found)
        async with running(found.env, controllers(found, Approval(by_hand=True))):
            await request_entitlement(found)
            await settle(3600)
            assert await ready(found) == ("False", "EntitlementPendingApproval")
            for phase, wanted in (
                ("Active", ("True", "EntitlementActive")),
                ("Rejected", ("False", "EntitlementRejected")),
            ):
                patch = merge({"status": {"phase": phase}})
                await found.project.patch(ENTITLEMENTS, "compute", patch, subresource="status")
                await settle()
                assert await ready(found) == wanted


async def test_a_request_for_an_unpublished_service_waits_until_it_is_published() -> None:
    async with standin_platform() as found:
        await found.set_project_ready()
        async with running(found.env, controllers(found)):
            await request_entitlement(found)
            await settle()
            assert await ready(found) == ("False", "ServiceNotPublished")

            await publish(found, services.PHASE_DRAFT)
            await settle()
            assert await ready(found) == ("False", "ServiceNotPublished")

            patch = merge({"spec": {"phase": services.PHASE_PUBLISHED}})
            await found.root.patch(services.SERVICES, services.SERVICE_COMPUTE, patch)
            await settle()
            assert await ready(found) == ("True", "EntitlementActive")

            await found.root.delete(services.SERVICES, services.SERVICE_COMPUTE)
            await settle()
            assert await ready(found) == ("True", "EntitlementActive"), "an answer stays"


async def test_a_service_is_referred_to_by_its_object_and_not_by_its_service_name() -> None:
    async with standin_platform() as found:
        await found.set_project_ready()
        await publish(found)
        async with running(found.env, controllers(found)):
            await request_entitlement(found, "compute.datumapis.com")
            await settle()

            assert await ready(found) == ("False", "ServiceNotPublished")


async def test_an_answered_request_is_not_written_again() -> None:
    async with standin_platform() as found:
        await found.set_project_ready()
        await publish(found)
        async with running(found.env, controllers(found)):
            await request_entitlement(found)
            await settle()
        before = (await entitlement(found)).metadata.resource_version
        async with running(found.env, controllers(found)):
            await settle(60)
            assert (await entitlement(found)).metadata.resource_version == before


async def test_a_request_is_cluster_scoped_and_its_message_is_limited() -> None:
    assert not ENTITLEMENTS.namespaced
    async with standin_platform() as found:
        for length in (1024, 1025):
            spec = {"serviceRef": {"name": "a.example"}, "requestMessage": "x" * length}
            body = {"metadata": {"name": f"of-{length}"}, "spec": spec}
            if length > 1024:
                with pytest.raises(errors.Invalid, match=r"spec\.requestMessage"):
                    await found.project.create(ENTITLEMENTS, body)
            else:
                await found.project.create(ENTITLEMENTS, body)
