"""From a command in a project to Pods under real kubelets in two cells, over real Karmada."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from scripts.cluster_tools import DEFAULT_TOOLS, NODE_TOOLS, ensure_tools
from tests.support.cluster.karmada import KarmadaClusters
from tests.support.cluster.karmada_stage import NAMESPACE, PODS, KarmadaStage, karmada_federation
from tests.support.cluster.manifests import run_kubectl_on
from tests.support.cluster.node import IMAGE, Node
from tests.support.federation.lifecycle import BOTH
from tests.support.objects import condition, find, until
from tests.support.providers.pod_harness import http_get

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.karmada,
    pytest.mark.kubelet,
    pytest.mark.realtime,
]

REPORTED_SECONDS = 5.0
"""From Ready in a cell to Ready in the project."""


@pytest.fixture(scope="module")
def nodes(clusters: KarmadaClusters) -> Iterator[None]:
    """A node in each cell."""
    tools = ensure_tools([*DEFAULT_TOOLS, *NODE_TOOLS])
    one, two = (
        Node(plane, tools, clusters.credential, number)
        for number, plane in enumerate(clusters.cells.values())
    )
    with one:
        with two:
            yield
        assert two.leftovers() == []
    assert one.leftovers() == []


async def types(stage: KarmadaStage, *words: str) -> str:
    """What a person types; the command must succeed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "datum_compute.cli", *words),
        *("--kubeconfig", str(stage.kubeconfig)),
        stdout=PIPE,
        stderr=PIPE,
        env={"HOME": str(stage.kubeconfig.parent), "PATH": os.defpath},
    )
    output, errors = await asyncio.wait_for(process.communicate(), 180)
    assert process.returncode == 0, f"{words}: {output.decode()}{errors.decode()}"
    return output.decode()


def name_in(city: str) -> str:
    return f"web-default-{city.lower()}-0"


async def answer_of(stage: KarmadaStage, city: str) -> str:
    """To a request to the address that the project shows."""
    shown = await stage.project.get(compute.INSTANCES, name_in(city), NAMESPACE)
    [interface] = shown.view(compute.Instance).status.network_interfaces
    assert interface.assignments.network_ip is not None
    return await http_get(interface.assignments.network_ip, 80)


async def run_in_pod(stage: KarmadaStage, city: str, *words: str) -> str:
    [pod] = (await stage.cell(city).list(core.PODS, stage.hub_namespace)).items
    plane, namespace = stage.clusters.cells[city.lower()], f"--namespace={stage.hub_namespace}"
    command = (namespace, "exec", pod.name, "--", *words)
    return await asyncio.to_thread(run_kubectl_on, plane, *command)


async def report_seconds(stage: KarmadaStage, city: str, before: str) -> float:
    """From the moment in which the successor of this Instance is Ready in its cell until the
    project shows it."""

    def is_ready(found: Object | None) -> bool:
        return found is not None and condition(found, "Ready")[0] == "True"

    def is_new(found: Object) -> bool:
        return found.metadata.uid != before and is_ready(found)

    cell, namespace = stage.cell(city), stage.hub_namespace
    ready = await until(cell, compute.INSTANCES, name_in(city), namespace, is_new, within=120)
    since = time.monotonic()
    while True:
        shown = await find(stage.project, compute.INSTANCES, name_in(city), NAMESPACE)
        uid = shown.metadata.annotations.get(compute.ANNOTATION_INSTANCE_UID) if shown else ""
        if uid == ready.metadata.uid and is_ready(shown):
            return time.monotonic() - since
        assert time.monotonic() - since < 60, shown
        await asyncio.sleep(0.05)


async def test_a_deployed_workload_answers_from_pods_in_two_cells_with_its_data(
    clusters: KarmadaClusters, nodes: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with karmada_federation(clusters, tmp_path, PODS) as stage:
        await types(stage, "config", "set", "settings", "colour=blue")
        await types(stage, "secrets", "set", "keys", "token=s3cr3t")
        started = time.monotonic()
        await types(
            stage,
            *("deploy", "web", f"--image={IMAGE}", "--city=DFW,LHR", "--port=http=80"),
            *("--mount=config/settings:/etc/settings", "--env-secret=TOKEN=keys:token"),
            *("--window=0s", "--yes"),
        )
        deployed = time.monotonic() - started
        before = {}
        for city in BOTH:
            assert f"hello from {name_in(city)}" in await answer_of(stage, city)
            assert await run_in_pod(stage, city, "cat", "/etc/settings/colour") == "blue"
            assert await run_in_pod(stage, city, "sh", "-c", "echo $TOKEN") == "s3cr3t\n"
            found = await stage.cell(city).get(
                compute.INSTANCES, name_in(city), stage.hub_namespace
            )
            before[city] = found.metadata.uid

        reports = asyncio.gather(*(report_seconds(stage, city, before[city]) for city in BOTH))
        await types(stage, "deploy", "web", "--env=VERSION=2", "--window=0s", "--yes")
        delays = await reports
        for city in BOTH:
            assert f"hello from {name_in(city)}" in await answer_of(stage, city)
        shown = await types(stage, "status", "web")
        await types(stage, "destroy", "web", "--yes")
        await stage.empty()
        for city in BOTH:
            assert not (await stage.cell(city).list(core.PODS, stage.hub_namespace)).items

    with capsys.disabled():
        seconds = ", ".join(f"{each:.2f} s" for each in delays)
        print(f"\ndeployed to two cells in {deployed:.1f} s; Ready in the project after {seconds}")
    assert "DFW" in shown
    assert max(delays) < REPORTED_SECONDS
