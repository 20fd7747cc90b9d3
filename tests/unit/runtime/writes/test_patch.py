"""Status writes: computed from an older state, or over what another writer left."""

from __future__ import annotations

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.runtime.writes import patch
from datum_compute.testing.server import embedded_server
from tests.support.simulation.platform import workload


async def status_of(client: Client) -> int:
    obj = await client.get(compute.WORKLOADS, "web", "default")
    return obj.view(compute.Workload).status.replicas


async def test_a_late_status_write_does_not_undo_a_newer_one() -> None:
    """A request may arrive after its sender timed out and sent another, even where the status
    has only one writer."""
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        created = await client.create(compute.WORKLOADS, workload("acme/web:1", 1), "default")
        await patch.write_status(client, compute.WORKLOADS, created, {"replicas": 2})

        with pytest.raises(errors.Conflict):
            await patch.write_status(client, compute.WORKLOADS, created, {"replicas": 1})
        with pytest.raises(errors.Conflict):
            await patch.copy_status(client, compute.WORKLOADS, created, created.spec)

        assert await status_of(client) == 2


async def test_an_unchanged_status_is_not_written() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        created = await client.create(compute.WORKLOADS, workload("acme/web:1", 1), "default")
        written = await patch.write_status(client, compute.WORKLOADS, created, {"replicas": 2})
        await client.patch(
            compute.WORKLOADS, "web", merge({"metadata": {"labels": {"a": "b"}}}), "default"
        )

        wanted = patch.values(written.status)
        again = await patch.write_status(client, compute.WORKLOADS, written, wanted)

        assert again is written


async def test_a_stored_condition_that_no_server_accepts_does_not_keep_a_status_from_it() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        created = await client.create(compute.WORKLOADS, workload("acme/web:1", 1), "default")
        odd = {"type": "not a type", "status": "True", "reason": "", "message": ""}
        good = {
            **odd,
            "type": "Good",
            "reason": "Kept",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = {**msgspec.json.decode(created.to_wire()), "status": {"conditions": [odd, good]}}
        stored = Object.from_wire(msgspec.json.encode(body))
        wanted = {"conditions": [odd, good], "replicas": 2}

        written = await patch.write_status(client, compute.WORKLOADS, stored, wanted)
        with pytest.raises(errors.Invalid):  # one of our own
            await patch.write_status(client, compute.WORKLOADS, written, {"conditions": [odd]})

        assert patch.values(written.status)["conditions"] == [good]
        assert await status_of(client) == 2
