"""The controllers of a cell leave an Instance alone that sleeps: it is ready, counted and paid."""

from __future__ import annotations

import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.client.protocol import merge
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.testing import loop
from tests.support.controllers import cell_deployments
from tests.support.controllers.cell_instances import (
    CLAIM,
    DEPLOYMENT,
    NAME,
    answer_claim,
    controller,
    create_prerequisites,
    until_hub_copy_shows,
    until_instance_shows,
)
from tests.support.controllers.planes import NAMESPACE, ControllerPlanes, controller_planes, settle

MONTH = 30 * 24 * 3600.0
SLEEP = {compute.ANNOTATION_SLEEP_AFTER: "5m"}


async def versions(w: ControllerPlanes) -> list[str]:
    """Of all that a write would touch."""
    return [
        (await w.cell.get(compute.INSTANCES, NAME, w.hub_namespace)).metadata.resource_version,
        (await w.hub.get(compute.INSTANCES, NAME, w.hub_namespace)).metadata.resource_version,
        (
            await w.cell.get(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, w.hub_namespace)
        ).metadata.resource_version,
        (await w.project.get(quota.RESOURCE_CLAIMS, CLAIM, NAMESPACE)).metadata.resource_version,
    ]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_instance_asleep_for_a_month_is_ready_counted_and_not_written() -> None:
    loop.run(_sleep_for_a_month(), limit=2 * MONTH)


async def _sleep_for_a_month() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        body = {
            "metadata": {"labels": {karmada.LABEL_MANAGED: "true"}},
            "spec": {"template": {"metadata": {"annotations": SLEEP}}},
        }
        await w.cell.patch(compute.WORKLOAD_DEPLOYMENTS, DEPLOYMENT, merge(body), w.hub_namespace)
        provider = SimulatedProvider(w.cell_fleet(), w.env, networking_enabled=False)
        running = (
            cell_deployments.federated_controller(w, w.project),
            controller(w),
            *provider.controllers(),
        )
        async with w.running(*running):
            await answer_claim(w)
            asleep = ("Asleep", "True", "Asleep"), ("Ready", "True", "Available")
            await settle(400)
            before = await until_instance_shows(w, *asleep)
            await until_hub_copy_shows(w, *asleep)
            await cell_deployments.status(w, (1, 1, 1, 1))
            settled = await versions(w)
            await settle(MONTH)

            after = await until_instance_shows(w, *asleep)
            assert after.metadata.uid == before.metadata.uid
            assert await versions(w) == settled
            await cell_deployments.status(w, (1, 1, 1, 1))
