"""The manager of a cell from the built image, as Pods of the cell's own kubelet, in a federation
on real Karmada."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from scripts.cluster_tools import DEFAULT_TOOLS, NODE_TOOLS, ensure_tools
from tests.support.cluster.karmada import PUSH, KarmadaClusters
from tests.support.cluster.karmada_stage import NAMESPACE, PODS, karmada_federation
from tests.support.cluster.managers.rollout import DEPLOYMENT, IMAGE_NAME, SYSTEM
from tests.support.cluster.manifests import run_kubectl_on
from tests.support.cluster.node import IMAGE, Node
from tests.support.objects import condition, until, until_gone
from tests.support.providers.pod_harness import http_get
from tests.support.simulation.platform import workload

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.karmada,
    pytest.mark.kubelet,
    pytest.mark.image,
    pytest.mark.realtime,
]

WITHIN = 180.0
ATTEMPTS = 3
INSTANCE = "web-default-dfw-0"


@pytest.fixture
def node(clusters: KarmadaClusters, manager_image: Path) -> Iterator[Node]:
    tools = ensure_tools([*DEFAULT_TOOLS, *NODE_TOOLS])
    plane = clusters.cells[PUSH]
    found = Node(plane, tools, clusters.credential, runs_deployments=True)
    with found:
        found.import_image(manager_image, IMAGE_NAME)
        yield found
    plane.start_collector()
    assert found.leftovers() == []


async def passes(check: Callable[[], Awaitable[object]]) -> None:
    """A manager that ends, as it does when a busy machine costs it its Lease, takes the commands
    in its container with it."""
    for _ in range(ATTEMPTS - 1):
        try:
            await check()
            return
        except AssertionError:
            pass
    await check()


async def test_a_cell_whose_manager_is_a_pod_runs_what_the_project_asks_for(
    clusters: KarmadaClusters, node: Node, tmp_path: Path
) -> None:
    async with karmada_federation(clusters, tmp_path, PODS, nodes={PUSH: node}) as stage:
        plane = clusters.cells[PUSH]
        pods = await stage.cell().list(core.PODS, "compute-system")
        assert len(pods.items) == 2, "replicas of one Deployment"
        flags = (
            *("--enable-cell-controllers", "--server-config=/etc/compute-manager/config.yaml"),
            "--federation-kubeconfig=/etc/compute-hub/config",
        )
        command = ("exec", DEPLOYMENT, "--", "/usr/bin/compute-manager", "--check", *flags)
        with stage.excused():
            await passes(partial(asyncio.to_thread, run_kubectl_on, plane, SYSTEM, *command))

        body = workload(IMAGE, 1, cities=("DFW",))
        [container] = body["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"]
        container["ports"] = [{"name": "http", "port": 80}]
        await stage.project.create(compute.WORKLOADS, body, NAMESPACE)
        shown = await until(
            *(stage.project, compute.INSTANCES, INSTANCE, NAMESPACE),
            lambda obj: condition(obj, "Ready")[0] == "True",
            within=WITHIN,
        )
        [interface] = shown.view(compute.Instance).status.network_interfaces
        assert interface.assignments.network_ip is not None
        answer = await http_get(interface.assignments.network_ip, 80)
        assert f"hello from {INSTANCE}" in answer

        await stage.project.delete(compute.WORKLOADS, "web", NAMESPACE)
        await until_gone(stage.project, compute.WORKLOADS, "web", NAMESPACE, within=WITHIN)
        await stage.empty()
