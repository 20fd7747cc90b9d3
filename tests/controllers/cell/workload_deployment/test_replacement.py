"""Lesson 12: an Instance updated in place went on running what it was started with.

So: a new template rolls by delete and recreate, one at a time, the highest ordinal first.
"""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from tests.support.controllers.cell_deployments import (
    ONE,
    TWO,
    ZERO,
    all_run,
    change,
    controller,
    deleting,
    given,
    replaced,
    status,
)
from tests.support.controllers.planes import controller_planes, settle, template


def _image(obj: Object) -> str:
    sandbox = obj.view(compute.Instance).spec.runtime.sandbox
    assert sandbox is not None
    return sandbox.containers[0].image


async def test_lesson_12_a_new_template_replaces_instances_from_the_top_one_by_one() -> None:
    async with controller_planes() as w:
        await given(w, 3)
        async with w.running(controller(w)):
            await all_run(w, ZERO, ONE, TWO)
            await status(w, (3, 3, 3, 3))
            before = {each.name: each for each in (await w.cell.list(compute.INSTANCES)).items}
            await change(w, template=template("acme/web:2"))
            for name in (TWO, ONE, ZERO):
                old = await deleting(w, name)
                assert old.metadata.uid == before[name].metadata.uid
                assert _image(old) == "acme/web:1", "what runs does not change"
                await settle(60)
                others = (await w.cell.list(compute.INSTANCES)).items
                assert [each.name for each in others if each.metadata.deleting] == [name]
                await replaced(w, name, old)
            await status(w, (3, 3, 3, 3))

        for each in (await w.cell.list(compute.INSTANCES)).items:
            assert _image(each) == "acme/web:2"
            assert each.metadata.uid != before[each.name].metadata.uid
