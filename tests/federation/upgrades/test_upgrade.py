"""Another release of the managers over planes that an earlier one has written: nothing rolls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import owner_reference
from datum_compute.client import errors
from datum_compute.controllers.cell.workload_deployment import workload_deployment_controller
from datum_compute.runtime.writes.patch import values
from datum_compute.runtime.writes.spec_copies import is_subset
from datum_compute.testing.expectations import eventually
from tests.support.controllers.planes import (
    ControllerPlanes,
    controller_planes,
    counters,
    deployment,
    given_namespace,
    report_serving,
    settle,
)
from tests.support.decisions import template_hashes
from tests.support.federation.stage import stage
from tests.support.simulation.commit_checker import EXPIRED_EVENTS, CommitChecker
from tests.support.simulation.platform import (
    PlatformRun,
    apply,
    list_on_planes,
    missing_for_image,
    workload,
)

GOLDEN: list[dict[str, Any]] = template_hashes.GOLDEN


def test_a_new_process_over_an_old_store_writes_nothing(tmp_path: Path) -> None:
    commit_checker = CommitChecker()
    before: dict[str, int] = {}
    uids: set[str] = set()

    def writes() -> dict[str, int]:
        quiet = (core.LEASES.group_resource, EXPIRED_EVENTS)
        return {kind: count for kind, count in commit_checker.changes.items() if kind not in quiet}

    async def deployed(platform: PlatformRun) -> None:
        await apply(platform, workload("acme/web:1", 2))
        await eventually("deployed", lambda: missing_for_image(platform, "acme/web:1", 4))
        await asyncio.sleep(120)
        before.update(writes())
        found = await list_on_planes(platform, compute.INSTANCES, "cell/dfw", "cell/lhr")
        uids.update(obj.metadata.uid for obj in found)

    async def started_again(platform: PlatformRun) -> None:
        await asyncio.sleep(600)
        assert await missing_for_image(platform, "acme/web:1", 4) == ""
        found = await list_on_planes(platform, compute.INSTANCES, "cell/dfw", "cell/lhr")
        assert {obj.metadata.uid for obj in found} == uids

    assert PlatformRun(1, tmp_path / "state.db", commit_checker=commit_checker).run(deployed)
    for number in (1, 2):
        platform = PlatformRun(
            1 + number, tmp_path / "state.db", number=number, commit_checker=commit_checker
        )
        assert platform.run(started_again)
    assert writes() == before


@pytest.mark.parametrize("part", ["compute-management", "compute-cell-dfw", "all"])
async def test_replacing_managers_one_by_one_or_together_rolls_nothing(part: str) -> None:
    async with stage() as on:
        await apply(on, workload("acme/web:1", 2))
        await eventually("deployed", lambda: missing_for_image(on, "acme/web:1", 4))
        await asyncio.sleep(60)
        found = await list_on_planes(on, compute.INSTANCES, "cell/dfw", "cell/lhr")
        before = on.writes()
        await on.restart(*(on.controllers if part == "all" else [part]))
        await asyncio.sleep(600)
        same = await list_on_planes(on, compute.INSTANCES, "cell/dfw", "cell/lhr")

        assert {obj.metadata.uid for obj in same} == {obj.metadata.uid for obj in found}
        assert on.writes() == before


# What an older release has stored.


class NotKept(Exception):
    """The API drops part of this template, so no Instance of it can have been stored."""


async def given_old(
    w: ControllerPlanes, name: str, template: dict[str, Any], template_hash: str
) -> str:
    """A deployment with an Instance that serves, under the hash it got at the time; with the
    labels of that time alone. Its uid."""
    body = deployment(name)
    body["spec"]["template"] = template
    owner = await w.cell.create(compute.WORKLOAD_DEPLOYMENTS, body, w.hub_namespace)
    if not is_subset(template, values(owner.spec)["template"]):
        await w.cell.delete(compute.WORKLOAD_DEPLOYMENTS, name, w.hub_namespace)
        raise NotKept
    instance = {
        "metadata": {
            "name": f"{name}-0",
            "labels": {compute.LABEL_WORKLOAD_DEPLOYMENT_UID: owner.metadata.uid},
            "finalizers": [compute.FINALIZER_INSTANCE, compute.FINALIZER_QUOTA_CLAIM],
            "ownerReferences": [owner_reference(owner, controller=True)],
        },
        "spec": {
            **(template.get("spec") or {}),
            "controller": {"templateHash": template_hash, "schedulingGates": []},
        },
    }
    made = await w.cell.create(compute.INSTANCES, instance, w.hub_namespace)
    await report_serving(w, made.name)
    return made.metadata.uid


async def given_record(w: ControllerPlanes) -> dict[str, str]:
    """An Instance of each template on record that the API takes: name of its deployment, uid."""
    await given_namespace(w.cell, w.hub_namespace)
    kept: dict[str, str] = {}
    for number, case in enumerate(GOLDEN):
        name = f"old-{number}"
        try:
            kept[name] = await given_old(w, name, case["template"], case["hash"])
        except (errors.Invalid, NotKept):
            continue
    return kept


async def test_instances_of_every_recorded_template_stay() -> None:
    async with controller_planes() as w:
        kept = await given_record(w)
        assert len(kept) >= len(GOLDEN) // 2, f"the API takes only {sorted(kept)}"
        stranger = await given_old(w, "stranger", GOLDEN[0]["template"], "0" * 16)
        async with w.running(
            workload_deployment_controller(w.cell_fleet(), w.env, networking=False)
        ):
            await settle(60)
            for name, uid in kept.items():
                reported = await w.cell.get(compute.WORKLOAD_DEPLOYMENTS, name, w.hub_namespace)
                assert counters(reported) == (1, 1, 1, 1), name
                found = await w.cell.get(compute.INSTANCES, f"{name}-0", w.hub_namespace)
                assert (found.metadata.uid, found.metadata.deleting) == (uid, False), name
                # Labels that a later release introduced were added, and nothing else.
                assert found.metadata.labels[compute.LABEL_CITY_CODE] == "DFW"
                assert found.metadata.generation == 1
            rolled = await w.cell.get(compute.INSTANCES, "stranger-0", w.hub_namespace)
            assert rolled.metadata.uid == stranger
            assert rolled.metadata.deleting, "a hash that is not on record is another template"
