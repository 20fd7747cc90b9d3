"""Each rule for writes on stale views finds a write that breaks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from tests.support.federation import crash_scenarios as scenarios
from tests.support.federation.stage import Stage, stage
from tests.support.federation.stale_views import StaleViews
from tests.support.federation.stale_write_rules import CELL, HUB, PROJECT, StaleWriteRules

Change = Callable[[Any], object]

PLANES = {PROJECT: "project/demo", HUB: "hub", CELL: "cell/dfw"}


def set_spec(key: str, value: object) -> Change:
    return lambda body: body["spec"].__setitem__(key, value)


def drop(part: str, key: str) -> Change:
    return lambda body: body["metadata"][part].pop(key)


def release(body: Any) -> None:
    body["metadata"]["finalizers"] = []


def drop_conditions(body: Any) -> None:
    body["status"]["conditions"] = body["status"]["conditions"][1:]


WRONG_PATCHES: tuple[tuple[str, Resource, Change, str], ...] = (
    (PROJECT, compute.WORKLOADS, release, "released from"),
    (PROJECT, compute.WORKLOAD_DEPLOYMENTS, release, "released from"),
    (CELL, compute.WORKLOAD_DEPLOYMENTS, release, "released from"),
    (CELL, compute.INSTANCES, release, "released from"),
    (HUB, compute.INSTANCES, drop("labels", compute.LABEL_WORKLOAD_NAME), "labels"),
    (PROJECT, compute.INSTANCES, drop("annotations", compute.ANNOTATION_INSTANCE_UID), "annot"),
    (CELL, compute.INSTANCES, drop_conditions, "conditions"),
    (HUB, compute.WORKLOAD_DEPLOYMENTS, set_spec("template", {"spec": {}}), "never had"),
    (PROJECT, compute.INSTANCES, set_spec("runtime", {}), "never had"),
)


async def test_each_wrong_patch_is_found() -> None:
    async with stage(cities=("DFW",)) as on:
        views = StaleViews(on, lags=1, share=1, seed=0)
        async with views.recording():
            rules = await _deployed(on, views)
            for cluster, resource, change, fault in WRONG_PATCHES:
                before = (await on.client(PLANES[cluster]).list(resource)).items[0]
                body = json.loads(before.to_wire())
                change(body)
                after = Object.from_wire(json.dumps(body).encode())

                found = await _faults(rules, cluster, before, after)

                assert [each for each in found if fault in each], (cluster, resource, found)


async def test_a_wrong_gate_removal_create_and_delete_are_found() -> None:
    async with stage(cities=("DFW",), grant={"instances": 0}) as on:
        views = StaleViews(on, lags=1, share=1, seed=0)
        async with views.recording():
            rules = await _deployed(on, views)
            [gated] = (await on.cell().list(compute.INSTANCES)).items
            body = json.loads(gated.to_wire())
            body["spec"]["controller"]["schedulingGates"] = []
            opened = Object.from_wire(json.dumps(body).encode())
            body["metadata"]["ownerReferences"][0]["uid"] = "of-no-deployment"
            orphan = Object.from_wire(json.dumps(body).encode())

            gate = await _faults(rules, CELL, gated, opened)
            create = await _faults(rules, CELL, None, orphan)
            delete = await _faults(rules, CELL, gated, None)

    assert gate == ["through the Quota gate without a grant"]
    assert create == ["created, and never wanted"]
    assert delete == ["deleted, and wanted ever since it exists"]


async def _deployed(on: Stage, views: StaleViews) -> StaleWriteRules:
    await scenarios.create(on)
    await asyncio.sleep(60)
    return views.rules


async def _faults(
    rules: StaleWriteRules, cluster: str, before: Object | None, after: Object | None
) -> list[str]:
    return [each async for each in rules.faults(cluster, 0, before, after)]
