"""Without a status interpreter the hub returns no status, and the manager logs it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.controllers.management.federation import federator
from datum_compute.runtime.metrics.exposition import render
from datum_compute.runtime.metrics.registry import MetricsRegistry
from tests.support.controllers.planes import NAMESPACE, controller_planes, deployment, settle

GAUGE = "compute_federation_status_interpreter"
ABSENT = "the hub does not aggregate the status of deployments"


def customization(kind: str, **scripts: Any) -> dict[str, Any]:
    target = {"apiVersion": "compute.datumapis.com/v1alpha", "kind": kind}
    return {
        "metadata": {"name": f"{kind.lower()}-status"},
        "spec": {"target": target, "customizations": scripts},
    }


async def test_a_hub_without_status_aggregation_is_reported_once_and_so_is_its_recovery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with controller_planes() as w:
        metrics = MetricsRegistry()
        script = {"luaScript": "function AggregateStatus(a, b) return a end"}
        other = customization("Instance", statusAggregation=script)
        await w.hub.create(karmada.INTERPRETER_CUSTOMIZATIONS, other)
        with caplog.at_level(logging.INFO, "datum_compute.controllers"):
            async with w.running(federator(w.projects(), w.hub_fleet(), w.env, metrics=metrics)):
                assert f"\n{GAUGE} 0.0\n" in render(metrics)
                for name in ("one-main-dfw", "two-main-dfw"):
                    body = deployment(name)
                    await w.project.create(compute.WORKLOAD_DEPLOYMENTS, body, NAMESPACE)
                await settle(600)
                logged = [each for each in caplog.records if ABSENT in each.message]
                assert [each.levelno for each in logged] == [logging.ERROR]

                right = customization("WorkloadDeployment", statusAggregation=script)
                await w.hub.create(karmada.INTERPRETER_CUSTOMIZATIONS, right)
                await w.project.create(
                    compute.WORKLOAD_DEPLOYMENTS, deployment("six-main-dfw"), NAMESPACE
                )
                await settle(60)
                assert f"\n{GAUGE} 1.0\n" in render(metrics)

    assert caplog.records[-1].message == "the hub aggregates the status of deployments"


async def test_a_hub_with_status_aggregation_logs_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with controller_planes() as w:
        script = {"luaScript": "function AggregateStatus(a, b) return a end"}
        right = customization("WorkloadDeployment", statusAggregation=script)
        await w.hub.create(karmada.INTERPRETER_CUSTOMIZATIONS, right)
        with caplog.at_level(logging.INFO, "datum_compute.controllers"):
            async with w.running(federator(w.projects(), w.hub_fleet(), w.env)):
                await w.project.create(compute.WORKLOAD_DEPLOYMENTS, deployment(), NAMESPACE)
                await settle(60)

    assert [each for each in caplog.records if "aggregate" in each.message] == []
