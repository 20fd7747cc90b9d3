"""A change of the spec succeeds while status is written, and never overwrites another's."""

from __future__ import annotations

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.commands.deploy.flags import Flags
from datum_compute.cli.commands.deploy.manifest import changed_workload, new_workload
from datum_compute.cli.history.spec_patch import change_spec
from datum_compute.cli.session import to_dict
from datum_compute.client import errors
from datum_compute.client.protocol import Client, merge
from datum_compute.testing.server import embedded_server

FIRST = new_workload("api", Flags(image="a:1", cities=("DFW",)))


async def write_status(client: Client, replicas: int) -> None:
    status = merge({"status": {"replicas": replicas}})
    await client.patch(compute.WORKLOADS, "api", status, "default", subresource="status")


async def test_a_concurrent_status_write_is_no_conflict() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        live = to_dict(await client.create(compute.WORKLOADS, FIRST, "default"))
        await write_status(client, 1)

        wanted = changed_workload(live, Flags(image="a:2"))
        changed = to_dict(await change_spec(client, live, wanted["spec"]))

        assert changed["spec"] == wanted["spec"]
        assert changed["status"]["replicas"] == 1


async def test_a_concurrent_spec_change_is_a_conflict_and_is_kept() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        live = to_dict(await client.create(compute.WORKLOADS, FIRST, "default"))
        theirs = changed_workload(live, Flags(minimum=5))
        await change_spec(client, live, theirs["spec"])

        with pytest.raises(errors.Conflict):
            await change_spec(client, live, changed_workload(live, Flags(image="a:2"))["spec"])

        now = to_dict(await client.get(compute.WORKLOADS, "api", "default"))
        assert now["spec"] == theirs["spec"]


async def test_a_change_of_a_recreated_workload_is_a_conflict() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        live = to_dict(await client.create(compute.WORKLOADS, FIRST, "default"))
        await client.delete(compute.WORKLOADS, "api", "default")
        await client.create(compute.WORKLOADS, FIRST, "default")

        with pytest.raises(errors.Conflict):
            await change_spec(client, live, changed_workload(live, Flags(image="a:2"))["spec"])


async def test_an_invalid_value_is_reported_as_such() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        live = to_dict(await client.create(compute.WORKLOADS, FIRST, "default"))
        wanted = changed_workload(live, Flags(minimum=1))
        wanted["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = -1

        with pytest.raises(errors.Invalid, match="minReplicas"):
            await change_spec(client, live, wanted["spec"])


async def test_annotations_are_written_with_the_spec_and_never_over_a_concurrent_change() -> None:
    async with embedded_server() as embedded:
        client = embedded.client("project/demo")
        live = to_dict(await client.create(compute.WORKLOADS, FIRST, "default"))
        theirs = merge({"metadata": {"annotations": {"theirs": "1"}}})
        await client.patch(compute.WORKLOADS, "api", theirs, "default")
        wanted = changed_workload(live, Flags(image="a:2"))["spec"]

        with pytest.raises(errors.Conflict):
            await change_spec(client, live, wanted, annotations={"ours": "2"})

        live = to_dict(await client.get(compute.WORKLOADS, "api", "default"))
        await client.patch(
            compute.WORKLOADS,
            "api",
            merge({"metadata": {"annotations": {"later": "3"}}}),
            "default",
        )
        annotations = {**live["metadata"]["annotations"], "ours": "2"}
        changed = to_dict(await change_spec(client, live, wanted, annotations=annotations))
        assert changed["metadata"]["annotations"] == {"theirs": "1", "ours": "2", "later": "3"}
        assert changed["spec"] == wanted
