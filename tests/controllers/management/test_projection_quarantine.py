"""An Instance that cannot be projected is logged once and counted, until it is repaired."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from datum_compute.controllers.management.projection import projector
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.metrics.registry import MetricsRegistry
from tests.support.controllers.planes import (
    NAMESPACE,
    ControllerPlanes,
    controller_planes,
    given_namespace,
    settle,
)
from tests.support.controllers.projections import NAME, given_owner, hub_instance
from tests.support.objects import until

LOGGED = "hub Instance cannot be projected"


def controller(w: ControllerPlanes, registry: MetricsRegistry) -> Controller:
    return projector(w.projects(), w.hub_fleet(), w.env, metrics=registry)


def counted(registry: MetricsRegistry) -> dict[str, float]:
    gauge = registry.gauge("compute_federation_quarantined_objects", "", "reason")
    reasons = ("no_project", "no_deployment", "owner_absent")
    return {reason: value for reason in reasons if (value := gauge.value(reason))}


def logged_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    fields = [getattr(each, "fields", {}) for each in caplog.records if each.message == LOGGED]
    return [each["reason"] for each in fields]


@pytest.mark.parametrize("value", ["", "demo"], ids=repr)
async def test_an_instance_without_a_project_is_quarantined_until_its_label_is_fixed(
    value: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry = MetricsRegistry()
    key = compute.LABEL_UPSTREAM_CLUSTER_NAME
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        await given_owner(w)
        async with w.running(controller(w, registry)):
            await w.hub.create(compute.INSTANCES, hub_instance(w, **{key: value}))
            await settle()
            note = {"metadata": {"annotations": {"seen": "again"}}}
            await w.hub.patch(compute.INSTANCES, NAME, merge(note), w.hub_namespace)
            await settle()

            assert counted(registry) == {"no_project": 1}
            assert logged_messages(caplog) == ["no_project"]

            repaired = {"metadata": {"labels": {key: "cluster-demo"}}}
            await w.hub.patch(compute.INSTANCES, NAME, merge(repaired), w.hub_namespace)
            await until(w.project, compute.INSTANCES, NAME, NAMESPACE, lambda _: True)
            assert counted(registry) == {}

            broken = {"metadata": {"labels": {key: value}}}
            await w.hub.patch(compute.INSTANCES, NAME, merge(broken), w.hub_namespace)
            await settle()
            assert logged_messages(caplog) == ["no_project", "no_project"]


async def test_an_instance_without_a_deployment_is_quarantined_until_it_is_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = MetricsRegistry()
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        body = hub_instance(w)
        body["metadata"]["name"] = "stray"
        del body["metadata"]["labels"][compute.LABEL_WORKLOAD_DEPLOYMENT_NAME]
        async with w.running(controller(w, registry)):
            await w.hub.create(compute.INSTANCES, body)
            await settle()
            assert counted(registry) == {"no_deployment": 1}
            assert logged_messages(caplog) == ["no_deployment"]

            await w.hub.delete(compute.INSTANCES, "stray", w.hub_namespace)
            await settle()
            assert counted(registry) == {}


async def test_an_instance_without_its_owner_is_quarantined_until_the_owner_exists(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = MetricsRegistry()
    async with controller_planes() as w:
        await given_namespace(w.hub, w.hub_namespace)
        async with w.running(controller(w, registry)):
            await w.hub.create(compute.INSTANCES, hub_instance(w))
            await asyncio.sleep(600)
            assert (counted(registry), logged_messages(caplog)) == (
                {},
                [],
            )  # it may be created soon

            await asyncio.sleep(3600)
            assert (counted(registry), logged_messages(caplog)) == (
                {"owner_absent": 1},
                ["owner_absent"],
            )

            await given_owner(w)
            await until(w.project, compute.INSTANCES, NAME, NAMESPACE, lambda _: True)
            assert counted(registry) == {}
