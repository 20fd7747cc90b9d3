"""An operation leaves the same objects on real engines as on the local platform."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from datum_compute.api import core
from datum_compute.client import errors
from datum_compute.testing.expectations import eventually
from tests.support.cluster.equal_objects import Objects, objects_of, objects_on_local_platform
from tests.support.cluster.karmada_stage import NAMESPACE, KarmadaStage
from tests.support.federation.crash_scenarios import SCENARIOS, SOURCES, difference
from tests.support.federation.stage import Stage

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.karmada,
    pytest.mark.campaign,
    pytest.mark.timeout(600),
]

WITHIN = 120.0
COMPARED = {
    "deploy",
    "scale_up",
    "scale_down",
    "change_the_image",
    "stop",
    "stop_one_city",
    "restart",
    "restart_one_city",
    "fix_a_bad_image",
    "add_a_city",
    "leave_a_city",
    "destroy",
    "delete_and_recreate",
    "lose_a_claim",
    "lose_a_projection",
    "come_and_leave_at_once",
    "share_a_policy",
    "leave_a_shared_policy",
    "deploy_with_data",
    "change_the_data",
    "name_other_data",
    "name_no_data",
    "destroy_with_data",
    "lose_a_companion",
}
"""Those that only users act in, and whose quota is that of every federation."""
CHOSEN = [each for each in SCENARIOS if each.name in COMPARED]


def test_enough_is_compared() -> None:
    assert {each.name for each in CHOSEN} == COMPARED
    assert len(CHOSEN) >= 15


@pytest.mark.parametrize("scenario", CHOSEN, ids=[each.name for each in CHOSEN])
async def test_the_same_objects_as_on_the_local_platform_after(
    scenario: object, on: KarmadaStage
) -> None:
    [chosen] = [each for each in CHOSEN if each is scenario]
    before, after = await asyncio.to_thread(objects_on_local_platform, chosen)
    stage = cast(Stage, on)  # of which these scenarios use only the planes

    async def differs_from(wanted: Objects) -> str:
        return difference(wanted, await objects_of(on))

    await chosen.before(stage)
    await eventually("as before", lambda: differs_from(before), within=WITHIN)
    await chosen.act(stage)
    await eventually("the same", lambda: differs_from(after), within=WITHIN)
    for resource, name in SOURCES:
        if resource in (core.CONFIG_MAPS, core.SECRETS):
            try:
                await on.project.delete(resource, name, NAMESPACE)
            except errors.NotFound:
                pass
