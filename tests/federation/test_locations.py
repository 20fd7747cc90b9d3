"""Cities the project may use: refused where it may not, and reported when that ends later."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import NAMESPACE, Stage, stage
from tests.support.objects import condition, message, until
from tests.support.simulation.platform import apply, list_on_planes, missing_for_image, workload


async def set_available(on: Stage, city: str, status: str) -> None:
    available = {
        "type": "Available",
        "status": status,
        "reason": "Maintenance",
        "message": "from the test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = merge({"status": {"conditions": [available]}})
    await on.project.patch(networking.LOCATION_BINDINGS, city.lower(), body, subresource="status")


async def test_a_city_that_is_not_bound_is_refused_and_the_bound_ones_are_listed() -> None:
    async with stage() as on:
        with pytest.raises(errors.Invalid) as refused:
            await on.project.create(
                compute.WORKLOADS, workload("acme/web:1", 1, ("DFW", "SIN")), NAMESPACE
            )

        assert 'Unsupported value: "SIN": supported values: "DFW", "LHR"' in str(refused.value)
        assert (await on.project.list(compute.WORKLOADS)).items == []


async def test_a_city_that_becomes_unavailable_is_reported_and_keeps_its_instances() -> None:
    async with stage() as on:
        await apply(on, workload("acme/web:1", 1))
        await eventually("deployed", lambda: missing_for_image(on, "acme/web:1", 2))
        uids = {obj.metadata.uid for obj in await list_on_planes(on, compute.INSTANCES, "cell/dfw")}
        await set_available(on, "DFW", "False")
        reported = await until(
            on.project,
            compute.WORKLOADS,
            "web",
            NAMESPACE,
            lambda obj: "No available location serves DFW" in message(obj, "Available"),
        )
        assert condition(reported, "Available")[0] == "True", "what runs there runs"
        await asyncio.sleep(600)
        found = await list_on_planes(on, compute.INSTANCES, "cell/dfw")
        assert {obj.metadata.uid for obj in found} == uids

        await set_available(on, "DFW", "True")
        await until(
            on.project,
            compute.WORKLOADS,
            "web",
            NAMESPACE,
            lambda obj: "No available location" not in message(obj, "Available"),
        )
