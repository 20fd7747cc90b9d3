"""Conditions are reported in one write, and only when something differs."""

from __future__ import annotations

from datetime import UTC, datetime

from datum_compute.api import conditions
from datum_compute.api.compute import v1alpha as compute
from datum_compute.runtime.writes.conditions import ConditionChange, write_conditions
from datum_compute.testing.server import embedded_server
from tests.support.simulation.platform import workload

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY = ConditionChange("Ready", conditions.TRUE, "Up", "all of it")


async def test_a_condition_and_other_fields_are_written_together() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        created = await client.create(compute.WORKLOADS, workload("acme/web:1", 1), "default")

        written = await write_conditions(
            client, compute.WORKLOADS, created, READY, now=NOW, fields={"replicas": 2}
        )
        again = await write_conditions(client, compute.WORKLOADS, written, READY, now=NOW)
        unobserved = await write_conditions(
            client, compute.WORKLOADS, written, READY, now=NOW, observed=False
        )

        status = written.view(compute.Workload).status
        ready = conditions.find(status.conditions, "Ready")
        assert ready is not None
        assert (ready.reason, ready.observed_generation) == ("Up", 1)
        assert status.replicas == 2
        assert again is written
        found = conditions.find(unobserved.view(compute.Workload).status.conditions, "Ready")
        assert found is not None
        assert found.observed_generation is None
