"""A city that is removed and added again while events of its network contexts are late."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import stage
from tests.support.simulation.platform import apply, list_on_planes, missing_for_image, workload


async def test_subnets_are_not_claimed_in_a_loop_for_a_context_that_is_gone() -> None:
    async with stage() as on:
        await apply(on, workload("acme/web:1", 1))
        await eventually("deployed", lambda: missing_for_image(on, "acme/web:1", 2))
        for process in on.parts:
            on.network.lags[process, networking.NETWORK_CONTEXTS.plural] = 20.0

        async def left() -> str:
            found = await list_on_planes(on, networking.NETWORKS, "cell/lhr")
            return f"{found} are there" if found else ""

        await apply(on, workload("acme/web:1", 1, ("DFW",)))
        await eventually("the city is left", left)
        requests = on.network.trace.counts["request"]
        await apply(on, workload("acme/web:1", 1))
        await eventually("come back", lambda: missing_for_image(on, "acme/web:1", 2))

        assert on.network.trace.counts["request"] - requests < 500
        assert len(await list_on_planes(on, compute.INSTANCES, "cell/lhr")) == 1
