"""Lesson 1: a pass wrote ``QuotaGranted=True`` and returned; nothing woke the Instance again, and
its gate stayed.

So: the gate goes in the same pass as the status that says granted.
"""

from __future__ import annotations

import json

from datum_compute.api.compute import v1alpha as compute
from datum_compute.platform.apiserver.storage import PlaneStore
from datum_compute.platform.apiserver.storage_table import Event, Table
from tests.controllers.cell_instances import (
    GRANTED,
    answer,
    controller,
    create,
    given,
    shows,
)
from tests.controllers.harness import world


async def test_lesson_01_the_gate_goes_in_the_pass_that_writes_the_grant() -> None:
    async with world() as w:
        await given(w)
        running = controller(w)
        passes: dict[str, int] = {}

        def changed(plane: PlaneStore, table: Table, event: Event) -> None:
            if table.resource != compute.INSTANCES.group_resource or plane.name != "cell/dfw":
                return
            obj = json.loads(event.after.raw)
            said = (obj.get("status") or {}).get("conditions") or []
            if any(each["type"] == "QuotaGranted" and each["status"] == "True" for each in said):
                passes.setdefault("granted", running.statistics().runs)
            if not obj["spec"]["controller"].get("schedulingGates"):
                passes.setdefault("gate", running.statistics().runs)

        w.embedded.store.listeners.append(changed)
        async with w.running(running):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)

        assert passes["granted"] == passes["gate"]


async def test_lesson_01_a_crash_between_the_two_writes_strands_nobody() -> None:
    crashes = iter([True])

    def crash() -> None:
        if next(crashes, False):
            raise RuntimeError("the process ends here")

    async with world() as w:
        w.env.on_fault("instance.before-gate", crash)
        await given(w)
        async with w.running(controller(w)):
            await create(w)
            await answer(w)
            await shows(w, GRANTED)

        assert w.env.fault_counts["instance.before-gate"] == 2
