"""The rule of who writes what can be broken, and the report names the writer."""

from __future__ import annotations

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.testing.server import EmbeddedServer, embedded_server
from tests.support.client.intercepted_transport import linked_client
from tests.support.simulation.platform import workload
from tests.support.simulation.writers import WriterChecker, signed_by

PLANE = "cell/dfw"


def client_of(embedded: EmbeddedServer, process: str) -> ApiClient:
    client, _ = linked_client(embedded, PLANE, signed_by(process))
    return client


async def judged(by: str, condition: str, *, gated: bool = False) -> list[str]:
    """The reported faults of a process that writes a condition of an Instance in a cell."""
    async with embedded_server() as embedded:
        writers = WriterChecker()
        embedded.store.subscribe(writers.changed)
        manager = client_of(embedded, "compute-cell-dfw")
        await manager.create(core.NAMESPACES, {"metadata": {"name": "ns-1"}})
        spec = workload("acme/web:1", 1)["spec"]["template"]["spec"]
        gates = [{"name": compute.GATE_QUOTA}] if gated else []
        spec["controller"] = {"templateHash": "0123456789abcdef", "schedulingGates": gates}
        body = {"metadata": {"name": "web-0"}, "spec": spec}
        await manager.create(compute.INSTANCES, body, "ns-1")
        reported = {
            "type": condition,
            "status": "True",
            "reason": "Said",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = merge({"status": {"conditions": [reported]}})
        client = client_of(embedded, by)
        await client.patch(compute.INSTANCES, "web-0", status, "ns-1", subresource="status")
        assert writers.judged == 2
        return writers.broken


async def test_providers_and_managers_write_only_their_own_conditions() -> None:
    assert await judged("provider-dfw", "Programmed") == []
    assert await judged("compute-cell-dfw", "QuotaGranted") == []
    assert await judged("compute-cell-dfw", "Available", gated=True) == []


async def test_a_foreign_write_names_its_writer() -> None:
    [broken] = await judged("provider-dfw", "Ready")
    assert "provider-dfw wrote Ready of web-0 on cell/dfw" in broken
    [broken] = await judged("compute-cell-dfw", "Programmed")
    assert "compute-cell-dfw wrote Programmed" in broken
    [broken] = await judged("provider-lhr", "Programmed")
    assert "provider-lhr wrote status of instances" in broken
