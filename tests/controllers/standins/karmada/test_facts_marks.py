"""What was changed by hand on the hub or in a member, and what is put back without a cause.

Facts about Karmada that the stand-in reproduces, one per test. The table in
``docs/develop/stand-in-facts.md`` lists which test keeps which fact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.protocol import merge
from datum_compute.runtime.writes.patch import values
from tests.support.client.intercepted_transport import DISCONNECTED, Rule, fail, is_write
from tests.support.objects import condition, exists, message, until, until_gone
from tests.support.standins.karmada import (
    BINDING,
    BINDINGS,
    CLUSTERS,
    NAME,
    NS,
    POLICIES,
    WDS,
    WORKS,
    change,
    propagated,
    propagation,
    report,
    until_ready,
    work_of,
)
from tests.support.standins.platform import (
    CITY,
    StandinPlatform,
    create_cluster,
    create_interpreter,
    create_policy,
    deployment,
    settle,
)

UNANSWERED = fail(errors.TimedOut("no answer in time"))
NOTED: dict[str, Any] = {"annotations": {"example.com/looked-at": "again"}}


async def strip(found: StandinPlatform, *, labels: bool = True, annotations: bool = True) -> None:
    """Remove every label and annotation of the member's object."""
    member = await found.cells["dfw"].get(WDS, NAME, NS)
    await found.cells["dfw"].patch(WDS, NAME, merge(without_marks(member, labels, annotations)), NS)


def without_marks(obj: Object, labels: bool, annotations: bool) -> dict[str, Any]:
    metadata = {}
    if labels:
        metadata["labels"] = dict.fromkeys(obj.metadata.labels)
    if annotations:
        metadata["annotations"] = dict.fromkeys(obj.metadata.annotations)
    return {"metadata": metadata}


def minimum(obj: Object) -> int:
    return int(values(obj.spec)["scaleSettings"]["minReplicas"])


def counts(replicas: int) -> Callable[[Object], bool]:
    return lambda one: values(one.status).get("replicas") == replicas


async def scale(found: StandinPlatform, replicas: int) -> None:
    await change(found, WDS, NAME, spec={"scaleSettings": {"minReplicas": replicas}})


async def test_a_deleted_binding_is_not_made_again_until_its_template_changes() -> None:
    async with propagated() as found:
        await found.hub.delete(BINDINGS, BINDING, NS)
        await until_gone(found.cells["dfw"], WDS, NAME, NS)
        await asyncio.sleep(90)
        assert not await exists(found.hub, BINDINGS, BINDING, NS)

        await change(found, WDS, NAME, metadata=NOTED)
        await until(found.cells["dfw"], WDS, NAME, NS, lambda one: True, within=2.0)


async def test_an_interpreter_installed_later_is_used_when_a_status_or_a_template_changes() -> None:
    for cause in ("status", "template"):
        async with propagated(interpreter=False) as found:
            await report(found, replicas=1)
            await until(
                found.hub,
                BINDINGS,
                BINDING,
                NS,
                lambda one: "status" in values(one.status).get("aggregatedStatus", [{}])[0],
            )
            await create_interpreter(found.hub)
            await asyncio.sleep(60)
            silent = await found.hub.get(WDS, NAME, NS)
            assert values(silent.status).get("replicas", 0) == 0

            if cause == "status":
                await report(found, replicas=2)
            else:
                await change(found, WDS, NAME, metadata=NOTED)
            expected = 2 if cause == "status" else 1
            await until(found.hub, WDS, NAME, NS, counts(expected))


@pytest.mark.parametrize(("max_delay", "late"), [(1000.0, True), (10.0, False)])
async def test_the_work_of_a_lost_member_is_tried_again_with_growing_delay(
    max_delay: float, late: bool
) -> None:
    async with propagated(max_delay=max_delay) as found:
        found.links["dfw"].rules.append(DISCONNECTED)
        await until_ready(found, "False", within=90)
        await scale(found, 4)
        await asyncio.sleep(300)
        found.links["dfw"].rules.clear()
        await until_ready(found, "True", within=90)
        await asyncio.sleep(15)

        assert (minimum(await found.cells["dfw"].get(WDS, NAME, NS)) == 1) is late
        await until(
            found.cells["dfw"], WDS, NAME, NS, lambda one: minimum(one) == 4, within=max_delay
        )


async def test_a_write_that_is_not_answered_in_time_counts_as_applied() -> None:
    """Karmada writes inside RetryOnConflict of client-go, which returns no error for a timeout."""
    async with propagated() as found:
        await settle()
        found.links["dfw"].rules.append(Rule(UNANSWERED, is_write))
        await scale(found, 4)
        await settle()
        found.links["dfw"].rules.clear()
        await report(found, replicas=1)
        await until(found.hub, WDS, NAME, NS, counts(1))
        await asyncio.sleep(3600)

        work = await work_of(found)
        assert condition(work, "Applied") == ("True", "AppliedSuccessful")
        assert minimum(await found.cells["dfw"].get(WDS, NAME, NS)) == 1
        await change(found, WDS, NAME, metadata=NOTED)
        await until(found.cells["dfw"], WDS, NAME, NS, lambda one: minimum(one) == 4, within=2.0)


async def test_a_creation_that_is_not_answered_in_time_counts_as_applied() -> None:
    async with propagation() as found:
        await create_cluster(found.hub, "dfw", "DFW")
        await create_policy(found.hub, NS, "DFW")
        await until(found.cells["dfw"], NAMESPACES, NS, "", lambda one: True)
        found.links["dfw"].rules.append(Rule(UNANSWERED, is_write))
        await found.hub.create(WDS, deployment(NAME, NS, "DFW"), NS)
        await settle()
        found.links["dfw"].rules.clear()
        await asyncio.sleep(3600)

        work = await work_of(found)
        assert condition(work, "Applied") == ("True", "AppliedSuccessful")
        assert not await exists(found.cells["dfw"], WDS, NAME, NS)
        await change(found, WDS, NAME, metadata=NOTED)
        await until(found.cells["dfw"], WDS, NAME, NS, lambda one: True, within=2.0)


async def test_a_label_removed_in_the_member_is_put_back() -> None:
    async with propagated() as found:
        await settle()
        body = {"metadata": {"labels": {CITY: None}}}
        await found.cells["dfw"].patch(WDS, NAME, merge(body), NS)

        await until(
            found.cells["dfw"],
            WDS,
            NAME,
            NS,
            lambda one: one.metadata.labels.get(CITY) == "DFW",
            within=5.0,
        )


async def test_an_annotation_removed_in_the_member_returns_with_the_next_change() -> None:
    stamp = compute.ANNOTATION_SOURCE_GENERATION
    async with propagated() as found:
        await settle()
        body = {"metadata": {"annotations": {stamp: None}}}
        await found.cells["dfw"].patch(WDS, NAME, merge(body), NS)
        await asyncio.sleep(25)
        assert stamp not in (await found.cells["dfw"].get(WDS, NAME, NS)).metadata.annotations

        await scale(found, 2)
        await until(
            found.cells["dfw"], WDS, NAME, NS, lambda one: stamp in one.metadata.annotations
        )


async def test_a_member_object_without_marks_is_not_updated_any_more() -> None:
    async with propagated() as found:
        await settle()
        await strip(found)
        await asyncio.sleep(60)
        assert not (await found.cells["dfw"].get(WDS, NAME, NS)).metadata.labels

        await scale(found, 2)
        work = await work_of(found)
        refused = await until(
            found.hub,
            WORKS,
            work.name,
            work.namespace,
            lambda one: condition(one, "Applied") == ("False", karmada.REASON_APPLIED_FAILED),
        )
        await asyncio.sleep(60)
        member = await found.cells["dfw"].get(WDS, NAME, NS)

        assert "already exists in the cluster" in message(refused, "Applied")
        assert (minimum(member), dict(member.metadata.labels)) == (1, {})


async def test_with_overwrite_the_next_change_gives_a_member_object_its_marks_back() -> None:
    async with propagated() as found:
        await change(found, POLICIES, "city-dfw", spec={"conflictResolution": "Overwrite"})
        await settle()
        before = await found.cells["dfw"].get(WDS, NAME, NS)
        await strip(found)
        await asyncio.sleep(60)
        assert not (await found.cells["dfw"].get(WDS, NAME, NS)).metadata.labels

        await change(found, WDS, NAME, metadata=NOTED)
        await until(
            found.cells["dfw"],
            WDS,
            NAME,
            NS,
            lambda one: (
                one.metadata.labels == before.metadata.labels
                and before.metadata.annotations.keys() <= one.metadata.annotations.keys()
            ),
            within=5.0,
        )


async def test_a_member_object_without_marks_outlives_its_template() -> None:
    async with propagated() as found:
        await settle()
        await strip(found)
        await found.hub.delete(WDS, NAME, NS)
        await until_gone(found.hub, BINDINGS, BINDING, NS)
        await asyncio.sleep(60)

        assert not (await found.cells["dfw"].get(WDS, NAME, NS)).metadata.deleting


async def test_labels_of_a_members_namespace_are_put_back() -> None:
    upstream = (compute.LABEL_UPSTREAM_CLUSTER_NAME, compute.LABEL_UPSTREAM_NAMESPACE)
    async with propagated() as found:
        await settle()
        body = {"metadata": {"labels": dict.fromkeys(upstream)}}
        await found.cells["dfw"].patch(NAMESPACES, NS, merge(body))

        await until(
            found.cells["dfw"],
            NAMESPACES,
            NS,
            "",
            lambda one: set(upstream) <= one.metadata.labels.keys(),
            within=10.0,
        )


async def test_a_members_namespace_without_marks_is_never_put_back() -> None:
    async with propagated() as found:
        await settle()
        member = await found.cells["dfw"].get(NAMESPACES, NS)
        body = without_marks(member, labels=True, annotations=True)
        await found.cells["dfw"].patch(NAMESPACES, NS, merge(body))
        await asyncio.sleep(60)
        await change(found, NAMESPACES, NS, metadata=NOTED)
        works = (await found.hub.list(WORKS, "karmada-es-dfw")).items
        [work] = [one for one in works if one.name.startswith(f"{NS}-")]
        await until(
            found.hub,
            WORKS,
            work.name,
            work.namespace,
            lambda one: condition(one, "Applied") == ("False", karmada.REASON_APPLIED_FAILED),
        )

        member = await found.cells["dfw"].get(NAMESPACES, NS)
        assert compute.LABEL_UPSTREAM_CLUSTER_NAME not in member.metadata.labels


async def test_a_member_that_is_no_longer_selected_is_emptied_at_once() -> None:
    async with propagated() as found:
        await change(found, CLUSTERS, "dfw", metadata={"labels": {CITY: None}})
        await until_gone(found.cells["dfw"], WDS, NAME, NS, within=5.0)
        unplaced = await until(
            found.hub, BINDINGS, BINDING, NS, lambda one: condition(one, "Scheduled")[0] == "False"
        )
        assert condition(unplaced, "Scheduled")[1] == karmada.REASON_NO_CLUSTER_FIT

        await change(found, CLUSTERS, "dfw", metadata={"labels": {CITY: "DFW"}})
        await until(found.cells["dfw"], WDS, NAME, NS, lambda one: True)
