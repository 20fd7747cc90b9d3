"""Rollouts in waves over two cities, on any platform: what each cell has, step by step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.decisions.rollout.state import find_state
from tests.support.federation.lifecycle import BOTH, FIRST, Lifecycle
from tests.support.objects import condition, until
from tests.support.simulation.platform import NAMESPACE, RunningPlatform, list_on_planes
from tests.support.simulation.random_operations import DesiredWorkload

LOOK_SECONDS = 0.1


def waved(**policy: str) -> DesiredWorkload:
    text = json.dumps({"waves": "each", "soak": "3s", "timeout": "2m", **policy})
    return replace(FIRST, minimum=1, rollout=text)


class WaveSteps:
    def __init__(self, on: RunningPlatform, *, within: float) -> None:
        self._on = on
        self._within = within
        self.steps = Lifecycle(on, within=within)

    async def deployed(self, desired: DesiredWorkload) -> None:
        await self._on.project.create(compute.WORKLOADS, desired.to_create(), NAMESPACE)
        await self.steps.settled(desired)

    async def roll_one_city_after_the_other(self) -> None:
        first = waved()
        await self.deployed(first)
        second = replace(first, image="acme/web:2")
        await self.steps.change(second)
        seen = await self._images_until(lambda found: found == ["acme/web:2"] * 2)
        await self.steps.settled(second)
        assert ["acme/web:2", "acme/web:1"] in seen
        assert ["acme/web:1", "acme/web:2"] not in seen

    async def undo_what_the_first_city_cannot_run(self) -> None:
        good = waved(onFailure="Undo")
        await self.deployed(good)
        bad = replace(good, image="acme/web:bad", fail="ImageUnavailable")
        await self.steps.change(bad)
        await self._images_until(lambda found: found[0] == bad.image)

        def is_rolled_back(obj: Object) -> bool:
            return condition(obj, "Progressing") == ("False", "RolledBack")

        workloads = compute.WORKLOADS
        await until(
            self._on.project, workloads, "web", NAMESPACE, is_rolled_back, within=self._within
        )
        seen = await self._images_until(lambda found: found == [good.image] * 2)
        assert all(found[1] == good.image for found in seen), "the second wave never opened"
        fixed = replace(good, image="acme/web:3")
        await self.steps.become(fixed)

    async def _images_until(self, holds: Callable[[list[str]], bool]) -> list[list[str]]:
        """What the deployments of both cells had on the way; the second city has the newest only
        after the first is recorded as done."""
        seen: list[list[str]] = []
        async with asyncio.timeout(self._within):
            while True:
                completed = await self._has_completed("web-default-dfw")
                images = [await self._image(city) for city in BOTH]
                if images not in seen:
                    seen.append(images)
                    # What is read first may be older, never newer: done before means done now.
                    moved = images[1] == images[0] != "acme/web:1"
                    assert completed or not moved or await self._has_completed("web-default-dfw")
                if holds(images):
                    return seen
                await asyncio.sleep(LOOK_SECONDS)

    async def _has_completed(self, name: str) -> bool:
        found = await self._on.project.get(compute.WORKLOAD_DEPLOYMENTS, name, NAMESPACE)
        state = find_state(found.metadata.annotations)
        return state is not None and state.outcome == "done"

    async def _image(self, city: str) -> str:
        [found] = await list_on_planes(
            self._on, compute.WORKLOAD_DEPLOYMENTS, f"cell/{city.lower()}"
        )
        sandbox = found.view(compute.WorkloadDeployment).spec.template.spec.runtime.sandbox
        return sandbox.containers[0].image if sandbox else ""
