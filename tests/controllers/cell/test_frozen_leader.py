"""Two managers of one cell, one of them frozen at any step: each Instance is created and deleted
once.

The API server and a provider, which reports every Instance as running, are not frozen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import cache

import pytest

from datum_compute.api import core, crds
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.controllers.cell.instance import instance_controller
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.fleets.single import SingleFleet
from datum_compute.providers.simulated import SimulatedProvider
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.manager import Manager
from datum_compute.runtime.tasks import stop_tasks
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.controllers.planes import deployment, template
from tests.support.runtime.frozen_process import (
    FROZEN_SECONDS,
    HandledRequest,
    Process,
    check,
    run_with_freeze,
    steps_of,
    stop_managers,
)

NAMESPACE = "ns-a"
NAME = "web-main-dfw"
SHARES = 8
"""Tests that all steps are divided among, so that they may run at once."""
definitions = cache(crds.crds_for)  # shared by many servers


def cell_controllers(process: Process) -> list[Controller]:
    cell = SingleFleet("cell", "single", process.client("cell/dfw"), process.env)
    return [
        workload_deployment_controller(cell, process.env, networking=False),
        instance_controller(cell, process.env, hub=None, projects=None, cluster_name="dfw"),
    ]


def provider(embedded: EmbeddedServer) -> Manager:
    env = SimulatedEnvironment(3)
    cell = SingleFleet("cell", "single", embedded.client("cell/dfw", "provider"), env)
    manager = Manager("provider", env)
    manager.add(*SimulatedProvider(cell, env).controllers())
    return manager


async def a_cell_rolls() -> list[HandledRequest]:
    """Two Instances are created, replaced for a new image, and deleted."""
    log: list[HandledRequest] = []
    async with embedded_server(cells=("dfw",), projects=(), crds_for=definitions) as embedded:
        admin = embedded.client("cell/dfw")
        await admin.create(core.NAMESPACES, {"metadata": {"name": NAMESPACE}})
        loop = asyncio.get_running_loop()
        around = loop.create_task(provider(embedded).run(), name="provider")
        one = Process("one", embedded, log, seed=1)
        two = Process("two", embedded, log, seed=2)
        tasks = [one.start(*cell_controllers(one))]
        await asyncio.sleep(0.5)
        tasks.append(two.start(*cell_controllers(two)))
        body = deployment(NAME, replicas=2)
        await admin.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)
        await asyncio.sleep(2.0)
        change = merge({"spec": {"template": template("acme/web:2")}})
        await admin.patch(compute.WORKLOAD_DEPLOYMENTS, NAME, change, NAMESPACE)
        await asyncio.sleep(2 * FROZEN_SECONDS)
        found = await admin.get(compute.WORKLOAD_DEPLOYMENTS, NAME, NAMESPACE)
        status = values(found.status)
        assert (status["readyReplicas"], status["updatedReplicas"]) == (2, 2), status
        await stop_managers(tasks)
        await stop_tasks([around])
    return log


def check_cell(log: list[HandledRequest], generations: int) -> None:
    """Besides the general rules: no ordinal was created more often than there were templates."""
    check(log)
    made = Counter(
        arrival.request.body
        for arrival in log
        if arrival.stored
        and arrival.request.method == "POST"
        and arrival.request.path.endswith("/instances")
    )
    assert len(made) <= 2 * generations, made
    assert set(made.values()) == {1}, made


def freeze_cell_at(step: int) -> None:
    log, loop = run_with_freeze(a_cell_rolls, victim="one", step=step, seconds=FROZEN_SECONDS)
    assert loop.froze
    try:
        check_cell(log, 2)
    except AssertionError as error:
        raise AssertionError(f"frozen at step {step}: {error}") from error


def test_a_frozen_cell_manager_writes_nothing_once_another_leads() -> None:
    steps = steps_of(a_cell_rolls)

    assert steps > 300
    for step in range(60, 250, 70):
        freeze_cell_at(step)


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_a_frozen_cell_manager_writes_nothing_wherever_it_freezes(share: int) -> None:
    for step in range(share, steps_of(a_cell_rolls), SHARES):
        freeze_cell_at(step)
