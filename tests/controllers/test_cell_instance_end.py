"""The end of an Instance, and what it gives back.

Quota and the provider are played by hand.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client.protocol import merge
from tests.controllers.cell_instances import (
    CLAIM,
    GRANTED,
    NAME,
    PROVIDER,
    answer,
    claim_of,
    controller,
    create,
    given,
    on_hub,
    scale,
    shows,
)
from tests.controllers.harness import (
    NAMESPACE,
    find,
    let_go,
    settle,
    until_gone,
    world,
)


async def test_deletion_gives_back_copy_and_claim() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
            await scale(w, 0)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)

        assert (await w.hub.list(compute.INSTANCES)).items == []
        assert (await w.project.list(quota.RESOURCE_CLAIMS)).items == []


async def test_nothing_is_given_back_while_a_provider_holds_the_instance() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w, provided=True)
            await answer(w)
            await on_hub(w, GRANTED)
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
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            first = await answer(w)
            await shows(w, GRANTED)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            await create(w)
            await shows(w, GRANTED)
            kept = await claim_of(w)

        assert kept.metadata.uid == first.metadata.uid


async def test_a_kept_claim_goes_when_its_ordinal_is_no_longer_wanted() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            await settle()
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None

            await scale(w, 0)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def test_planes_that_are_away_hold_up_no_deletion_and_are_swept_on_contact() -> None:
    async with world() as w:
        await given(w)
        hub, hub_link = w.linked("hub")
        project, project_link = w.linked("project/demo")
        async with w.running(controller(w, hub=hub, project=project)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
            await scale(w, 0)
            hub_link.cut = project_link.cut = True
            await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
            assert await find(w.hub, compute.INSTANCES, NAME, w.hub_namespace) is not None
            assert await find(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE) is not None

            hub_link.cut = project_link.cut = False
            await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def test_leftovers_of_an_earlier_life_are_swept_after_a_restart() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
        await scale(w, 0)
        await w.cell.delete(compute.INSTANCES, NAME, w.hub_namespace)
        await let_go(w.cell, compute.INSTANCES, NAME, w.hub_namespace)
        async with w.running(controller(w)):
            await until_gone(w.hub, compute.INSTANCES, NAME, w.hub_namespace)
            await until_gone(w.project, quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)


async def test_a_settled_instance_is_not_written_again() -> None:
    async with world() as w:
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await on_hub(w, GRANTED)
            await settle()
            places = [(c, compute.INSTANCES) for c in (w.cell, w.hub)]
            before = [(await c.list(kind)).resource_version for c, kind in places]
            await settle(600)

        assert [(await c.list(kind)).resource_version for c, kind in places] == before
