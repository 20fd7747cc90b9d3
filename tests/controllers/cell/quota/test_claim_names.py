"""Lesson 3: claims of different kinds had the same name and replaced each other.

So: the claim of an Instance is ``instance-<name>``.
"""

from __future__ import annotations

from datum_compute.api.compute import names
from datum_compute.api.quota import v1alpha1 as quota
from tests.support.controllers.cell_instances import (
    GRANTED,
    NAME,
    answer_claim,
    controller,
    create,
    create_prerequisites,
    until_instance_shows,
)
from tests.support.controllers.planes import NAMESPACE, ControllerPlanes, controller_planes


async def _claimed_by_another_kind(w: ControllerPlanes, name: str) -> str:
    body = {
        "metadata": {"name": name},
        "spec": {
            "requests": [{"resourceType": "compute.datumapis.com/workloads", "amount": 1}],
            "resourceRef": {"kind": "Project", "name": "demo"},
        },
    }
    made = await w.project.create(quota.RESOURCE_CLAIMS, body, NAMESPACE)
    return made.metadata.resource_version


async def test_lesson_03_claims_of_other_kinds_do_not_collide_and_stay_unchanged() -> None:
    async with controller_planes() as w:
        await create_prerequisites(w)
        others = (NAME, f"workload-{NAME}", f"{w.hub_namespace}--{NAME}", f"{NAMESPACE}--{NAME}")
        before = {name: await _claimed_by_another_kind(w, name) for name in others}
        async with w.running(controller(w)):
            await create(w)
            await answer_claim(w)
            await until_instance_shows(w, GRANTED)

        found = (await w.project.list(quota.RESOURCE_CLAIMS)).items
        assert {claim.name for claim in found} == {*others, f"instance-{NAME}"}
        for claim in found:
            if claim.name in before:
                assert claim.metadata.resource_version == before[claim.name]


def test_lesson_03_a_claim_is_named_after_its_instance_and_maps_back_to_it() -> None:
    assert names.claim_name(NAME) == f"instance-{NAME}"
    assert names.instance_of_claim(f"instance-{NAME}") == NAME
    assert names.instance_of_claim(f"workload-{NAME}") == ""
