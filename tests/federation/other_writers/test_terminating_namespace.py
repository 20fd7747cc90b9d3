"""A namespace that is being deleted, by a user in the project or by an operator in a cell."""

from __future__ import annotations

import asyncio
import logging

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import Stage, stage
from tests.support.simulation.commit_checker import NoRules
from tests.support.simulation.platform import workload

TEAM = "team"
INSTANCE = "web-default-dfw-0"


class LateCreations:
    """What is created in a namespace after its deletion began and before it is gone."""

    def __init__(self, plane: str, namespace: str) -> None:
        self._plane, self._namespace = plane, namespace
        self.found: list[str] = []
        self._deleting = False

    def note(self, plane: PlaneStore, table: Table, event: StoreEvent) -> None:
        if plane.name != self._plane:
            return
        if table.resource == core.NAMESPACES.group_resource and event.after.name == self._namespace:
            self._deleting = not event.deleted and b"deletionTimestamp" in event.after.raw
        created = event.before is None and event.after.namespace == self._namespace
        if created and self._deleting and table.resource != core.EVENTS.group_resource:
            self.found.append(f"{table.resource} {event.after.name}")


async def _deploy(on: Stage) -> str:
    """A Workload in a namespace of its own; returns the namespace on the hub and in the cell."""
    made = await on.project.create(core.NAMESPACES, {"metadata": {"name": TEAM}})
    network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
    await on.project.create(networking.NETWORKS, network, TEAM)
    await on.project.create(compute.WORKLOADS, workload("acme/web:1", 1, ("DFW",)), TEAM)
    await eventually("deployed", lambda: _missing_instance(on))
    return f"ns-{made.metadata.uid}"


async def _missing_instance(on: Stage) -> str:
    found = (await on.project.list(compute.INSTANCES, TEAM)).items
    ready = [each.name for each in found if each.view(compute.Instance).ready]
    return "" if ready == [INSTANCE] else f"ready: {ready}"


@pytest.mark.parametrize("plane", ["project/demo", "cell/dfw"])
async def test_nothing_is_created_in_a_namespace_being_deleted_and_no_error_is_logged(
    plane: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with stage(cities=("DFW",), commit_checker=NoRules()) as on:
        hub_namespace = await _deploy(on)
        namespace = TEAM if plane == "project/demo" else hub_namespace
        late = LateCreations(plane, namespace)
        on.platform.store.subscribe(late.note)
        caplog.clear()
        await on.client(plane).delete(core.NAMESPACES, namespace)
        await asyncio.sleep(120)

        assert late.found == []
        failed = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
        assert failed == []
        names = [each.name for each in (await on.project.list(core.NAMESPACES)).items]
        if plane == "project/demo":
            assert TEAM not in names
        else:
            assert not await _missing_instance(on)
