"""Lesson 10: a label held ``org/project`` where the fleet has ``project``, so nothing matched.

So: decode to the last segment, and drop what is not engaged.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.controllers.management.projection import projector
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    controller_planes,
    deployment,
    given_namespace,
    template,
)
from tests.support.objects import until

INSTANCE = "web-main-dfw-0"


@pytest.mark.parametrize(
    ("label", "project"),
    [
        ("cluster-demo", "demo"),
        ("cluster-acme_demo", "demo"),
        ("cluster-planet_acme_demo", "demo"),
        ("cluster-_demo", "demo"),
        ("cluster-", ""),
        ("cluster-acme_", ""),
        ("demo", ""),
        ("", ""),
    ],
)
def test_lesson_10_a_cluster_label_decodes_to_its_last_segment(label: str, project: str) -> None:
    assert names.decode_project(label) == project


def _hub_instance(w: ControllerPlanes, cluster: str) -> dict[str, Any]:
    labels = {
        compute.LABEL_UPSTREAM_CLUSTER_NAME: cluster,
        compute.LABEL_UPSTREAM_NAMESPACE: NAMESPACE,
        compute.LABEL_WORKLOAD_DEPLOYMENT_NAME: "web-main-dfw",
        compute.LABEL_INSTANCE_INDEX: "0",
    }
    annotations = {compute.ANNOTATION_INSTANCE_UID: "cell-uid-1"}
    metadata = {"name": INSTANCE, "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": template()["spec"]}


async def _given_owner(w: ControllerPlanes) -> None:
    await given_namespace(w.hub, w.hub_namespace, cluster="cluster-acme_demo")
    notes = {compute.ANNOTATION_FEDERATION_NAMESPACE: w.hub_namespace}
    body = deployment("web-main-dfw", annotations=notes)
    await w.project.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)


async def test_lesson_10_an_instance_labelled_org_and_project_is_projected() -> None:
    async with controller_planes() as w:
        await _given_owner(w)
        controller = projector(w.projects(), w.hub_fleet(), w.env)
        async with w.running(controller):
            body = _hub_instance(w, "cluster-acme_demo")
            await w.hub.create(compute.INSTANCES, body, w.hub_namespace)
            await until(w.project, compute.INSTANCES, INSTANCE, NAMESPACE, lambda obj: True)

            assert controller.statistics().dropped_unengaged == 0


async def test_lesson_10_an_instance_of_a_project_that_is_not_engaged_is_dropped_and_counted() -> (
    None
):
    async with controller_planes() as w:
        await _given_owner(w)
        controller = projector(w.projects(), w.hub_fleet(), w.env)
        async with w.running(controller):
            await asyncio.sleep(10)
            runs = controller.statistics().runs
            body = _hub_instance(w, "cluster-demo_stranger")
            await w.hub.create(compute.INSTANCES, body, w.hub_namespace)
            await asyncio.sleep(24 * 3600)

            now = controller.statistics()
            assert (now.runs, now.errors) == (runs, 0)
            assert now.dropped_unengaged == 1
            assert (await w.project.list(compute.INSTANCES)).items == []
