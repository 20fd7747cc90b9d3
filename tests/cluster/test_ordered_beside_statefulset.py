"""100 ordered Instances of one cell against 100 ordered Pods of a StatefulSet, on one real API
server in one run. What makes them ready is in the process of the tests, for either."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.scheme import Resource
from datum_compute.client import connect, errors, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.client.protocol import merge
from datum_compute.env import SystemEnvironment
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from scripts.cluster_tools import DEFAULT_TOOLS, KUBE_CONTROLLER_MANAGER, ensure_tools
from tests.support.cluster.control_plane import ControlPlane, Process
from tests.support.cluster.namespaces import standins
from tests.support.cluster.roles import define_kinds
from tests.support.federation.stage import deployment
from tests.support.processes.managers import manager

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.campaign,
    pytest.mark.realtime,
    pytest.mark.timeout(900),
]

COUNT = 100
FLOOR = 3.0
"""How many times as long as the StatefulSet the Instances may take; the goal is once."""
ROUNDS = 3
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
WITHIN = 300.0


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    tools = ensure_tools([*DEFAULT_TOOLS, KUBE_CONTROLLER_MANAGER])
    with ControlPlane(tools) as running:
        define_kinds(running)
        config = running.write_kubeconfig(running.directory / "statefulset.kubeconfig")
        command = [
            str(tools / KUBE_CONTROLLER_MANAGER.name),
            f"--kubeconfig={config}",
            "--controllers=statefulset-controller,garbage-collector-controller",
            # Its default rate would make it wait most of the time.
            *("--kube-api-qps=2000", "--kube-api-burst=2000"),
            *("--leader-elect=false", "--secure-port=0"),
        ]
        process = Process("statefulset", command, running.directory / "statefulset.log")
        try:
            yield running
        finally:
            process.stop()


@contextlib.asynccontextmanager
async def pods_made_ready(client: ApiClient) -> AsyncIterator[None]:
    """As a kubelet reports them."""
    ready = {"type": "Ready", "status": "True"}
    status = merge({"status": {"phase": "Running", "conditions": [ready]}})

    async def follow() -> None:
        async with client.watch(core.PODS, "default") as events:
            async for event in events:
                if event.type == "ADDED":
                    with contextlib.suppress(errors.NotFound):
                        name = event.object.name
                        await client.patch(core.PODS, name, status, "default", subresource="status")

    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def stateful_set(name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "app", "image": "acme/web:1"}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": COUNT,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def timed(
    client: ApiClient, resource: Resource, body: dict[str, Any], gone: Callable[[], Awaitable[str]]
) -> float:
    """From the request until all are ready; then all is removed."""
    name = body["metadata"]["name"]
    async with client.watch(resource, "default") as events:
        started = time.monotonic()
        await client.create(resource, body, "default")
        async with asyncio.timeout(WITHIN):
            async for event in events:
                ready = values(event.object.status).get("readyReplicas")
                if (event.object.name, ready) == (name, COUNT):
                    break
        seconds = time.monotonic() - started
    await client.delete(resource, name, "default")
    await eventually("gone", gone, within=WITHIN)
    return seconds


async def test_ordered_instances_keep_up_with_a_stateful_set(
    plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    connection = kubeconfig.load(path, env=SystemEnvironment())
    transport = connect.transport_for(connection)
    client = ApiClient(transport, cluster="single", token=connection.token, user_agent="test")

    async def left() -> str:
        for resource in (core.PODS, compute.INSTANCES, compute.WORKLOAD_DEPLOYMENTS):
            if found := (await client.list(resource, "default")).items:
                return f"{len(found)} {resource.plural} are left"
        return ""

    ours, theirs = [], []
    argv = ("--enable-cell-controllers", f"--kubeconfig={path}")
    try:
        async with (
            standins(client, networks=False),
            pods_made_ready(client),
            manager(tmp_path, "manager", *argv),
        ):
            for number in range(ROUNDS):
                body = stateful_set(f"set-{number}")
                theirs.append(await timed(client, STATEFUL_SETS, body, left))
                body = deployment(f"web-{number}-dfw", replicas=COUNT)
                ours.append(await timed(client, compute.WORKLOAD_DEPLOYMENTS, body, left))
    finally:
        await client.close()
    ratio = min(ours) / min(theirs)
    with capsys.disabled():
        shown = [", ".join(f"{each:.2f}" for each in times) for times in (ours, theirs)]
        print(
            f"\n{COUNT} ordered Instances: {shown[0]} s; Pods of a StatefulSet: {shown[1]} s;"
            f" {ratio:.2f} times, load average {os.getloadavg()[0]:.1f}"
        )
    assert ratio <= FLOOR
