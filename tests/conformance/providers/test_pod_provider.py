"""The provider of Pods passes the kit, with a stand-in for the kubelet of its cell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from datum_compute.client.remote_command import CommandRequest
from datum_compute.providers import conformance
from datum_compute.providers.conformance import Capability, Check, Harness, Lack
from datum_compute.providers.conformance.harness import expect, run, shell
from datum_compute.providers.protocol import ExecRefused
from tests.support.providers import pods
from tests.support.providers.pod_harness import LACKS, PodHarness


async def the_pod_has_the_command(cell: Harness) -> None:
    found = await run(cell, "command-0", container=shell("sleep 5"))
    [container] = await cell.running(found.metadata.uid)
    expect('["/bin/sh", "-c", "sleep 5"]' in container.description, container.description)


async def the_refusal_of_the_cell_is_passed_on(cell: Harness) -> None:
    uid = (await run(cell, "refused-0")).metadata.uid
    with pytest.raises(ExecRefused):
        await cell.commands().exec(uid, CommandRequest(("/bin/sh",), "app"))


STAND_IN = {
    Capability.COMMANDS: Lack(
        "the stand-in starts no process", the_refusal_of_the_cell_is_passed_on
    ),
    Capability.PROCESSES: Lack("the stand-in starts no process", the_pod_has_the_command),
}


@asynccontextmanager
async def pod_cell() -> AsyncIterator[PodHarness]:
    async with pods.cluster_of_pods() as (embedded, cluster):
        harness = PodHarness(
            client=embedded.client(pods.CELL),
            provider="pod",
            image="registry.example/app:1",
            retry_seconds=30,
            lacks=LACKS | STAND_IN,
            env=cluster.env,
            provider_client=embedded.client(pods.CELL, "pod-provider"),
        )
        await harness.start()
        try:
            yield harness
        finally:
            await harness.stop()


@pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.title)
async def test_the_provider_of_pods_passes_the_kit(check: Check) -> None:
    async with pod_cell() as cell:
        await check(cell)
