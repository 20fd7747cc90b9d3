"""Lesson 1: a reconcile wrote ``QuotaGranted=True`` and returned; nothing enqueued the Instance
again, and its gate stayed.

So: the gate is removed in the same reconcile that stores the grant.
"""

from __future__ import annotations

import json

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.apiserver.storage.protocol import PlaneStore, StoreEvent, Table
from tests.support.controllers.cell_instances import (
    GRANTED,
    answer_claim,
    controller,
    create,
    create_prerequisites,
    until_instance_shows,
)
from tests.support.controllers.planes import controller_planes


async def test_lesson_01_the_reconcile_that_stores_the_grant_removes_the_gate() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        running = controller(w)
        runs: dict[str, int] = {}

        def changed(plane: PlaneStore, table: Table, event: StoreEvent) -> None:
            if table.resource != compute.INSTANCES.group_resource or plane.name != "cell/dfw":
                return
            obj = json.loads(event.after.raw)
            stored = (obj.get("status") or {}).get("conditions") or []
            if any(each["type"] == "QuotaGranted" and each["status"] == "True" for each in stored):
                runs.setdefault("granted", running.statistics().runs)
            if not obj["spec"]["controller"].get("schedulingGates"):
                runs.setdefault("gate", running.statistics().runs)

        w.embedded.store.subscribe(changed)
        async with w.running(running):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)

        assert runs["granted"] == runs["gate"]


@pytest.mark.parametrize("crashes", [1, 2])
async def test_lesson_01_crashes_between_the_two_writes_strand_no_instance(crashes: int) -> None:
    left = iter(range(crashes))

    def crash() -> None:
        if next(left, None) is not None:
            raise RuntimeError("the process ends here")

    async with controller_planes() as w:
        w.env.on_fault("instance.before-gate", crash)
        await create_prerequisites(w)
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)

        assert w.env.fault_counts["instance.before-gate"] == crashes + 1
