"""The end of an Instance, and what it gives back.

The test acts as quota and as the provider.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client.protocol import merge
from tests.support.client.intercepted_transport import CUT
from tests.support.controllers.cell_instances import (
    CLAIM,
    GRANTED,
    NAME,
    PROVIDER,
    answer_claim,
    claim_of,
    controller,
    create,
    create_prerequisites,
    scale,
    until_hub_copy_shows,
    until_instance_shows,
)
from tests.support.controllers.planes import NAMESPACE, controller_planes, remove_finalizers, settle
from tests.support.objects import find, until_gone


async def test_deletion_releases_hub_copy_and_claim() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_hub_copy_shows(w, GRANTED)
            await scale(w, 0)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)

        assert (await w.hub.list(compute.INSTANCES)).items == []
        assert (await w.project.list(quota.RESOURCE_CLAIMS)).items == []


async def test_nothing_is_released_while_a_provider_finalizer_remains() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w, provided=True)
            await answer_claim(w)
            await until_hub_copy_shows(w, GRANTED)
            await scale(w, 0)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            assert await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace) is not None
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None

            found = await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)
            left = [each for each in found.metadata.finalizers if each != PROVIDER]
            body = {"metadata": {"finalizers": left}}
            await w.cell.patch(compute.INSTANCES, NAME, merge(body), w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)

        assert (await w.project.list(quota.RESOURCE_CLAIMS)).items == []


async def test_a_replacement_takes_over_the_claim_of_its_predecessor() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            first = await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            await create(w)
            await until_instance_shows(w, GRANTED)
            kept = await claim_of(w)

        assert kept.metadata.uid == first.metadata.uid


async def test_a_kept_claim_is_deleted_when_its_ordinal_is_no_longer_wanted() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None

            await scale(w, 0)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def test_an_instance_is_deleted_while_planes_are_unreachable_and_swept_on_reconnect() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        hub, hub_link = w.linked("hub")
        project, project_link = w.linked("project/demo")
        async with w.running(controller(w, hub=hub, project=project)):
            await create(w)
            await answer_claim(w)
            await until_hub_copy_shows(w, GRANTED)
            await scale(w, 0)
            for line in (hub_link, project_link):
                line.rules.append(CUT)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            assert await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace) is not None
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None

            for line in (hub_link, project_link):
                line.rules.clear()
            await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def test_orphans_of_an_earlier_process_are_swept_after_a_restart() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_hub_copy_shows(w, GRANTED)
        await scale(w, 0)
        await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
        await remove_finalizers(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
        async with w.running(controller(w)):
            await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def test_a_settled_instance_is_not_written_again() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_hub_copy_shows(w, GRANTED)
            await settle()
            places = [(c, compute.INSTANCES) for c in (w.cell, w.hub)]
            before = [(await c.list(kind)).resource_version for c, kind in places]
            await settle(600)

        assert [(await c.list(kind)).resource_version for c, kind in places] == before
