"""From a command in a project to Pods under real kubelets in two cells, over real Karmada."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.providers.conformance import PrivateImage
from datum_compute.runtime.writes.patch import values
from datum_compute.testing.expectations import eventually
from scripts.cluster_tools import DEFAULT_TOOLS, NODE_TOOLS, ensure_tools
from tests.support.cluster.command_line import types
from tests.support.cluster.karmada import KarmadaClusters
from tests.support.cluster.karmada_stage import NAMESPACE, PODS, KarmadaStage, SharedStage
from tests.support.cluster.manifests import run_kubectl_on
from tests.support.cluster.node import IMAGE, Node, busybox_image
from tests.support.federation import data
from tests.support.federation.lifecycle import BOTH
from tests.support.objects import condition, exists, find, until, until_gone
from tests.support.providers.pod_harness import http_get
from tests.support.providers.registry import private_registry

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.karmada,
    pytest.mark.kubelet,
    pytest.mark.realtime,
]

REPORTED_SECONDS = 5.0
"""From Ready in a cell to Ready in the project."""
WITHIN = 120.0
SOURCES = ((core.CONFIG_MAPS, "settings"), (core.SECRETS, "keys"))


@pytest.fixture(scope="module")
def nodes(clusters: KarmadaClusters) -> Iterator[Mapping[str, Node]]:
    """A node in each cell, by city."""
    tools = ensure_tools([*DEFAULT_TOOLS, *NODE_TOOLS])
    one, two = (
        Node(plane, tools, clusters.credential, number)
        for number, plane in enumerate(clusters.cells.values())
    )
    with one:
        with two:
            yield dict(zip(BOTH, (one, two), strict=True))
        assert two.leftovers() == []
    assert one.leftovers() == []


@pytest.fixture(scope="module")
def on(
    clusters: KarmadaClusters, nodes: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedStage]:
    with SharedStage(clusters, tmp_path_factory.mktemp("stage"), PODS) as stage:
        yield stage


def name_in(city: str, workload: str = "web") -> str:
    return f"{workload}-default-{city.lower()}-0"


async def address_in(stage: KarmadaStage, city: str) -> str:
    """That the project shows."""
    shown = await stage.project.get(compute.INSTANCES, name_in(city), NAMESPACE)
    [interface] = shown.view(compute.Instance).status.network_interfaces
    assert interface.assignments.network_ip is not None
    return interface.assignments.network_ip


async def answer_of(stage: KarmadaStage, city: str) -> str:
    return await http_get(await address_in(stage, city), 80)


async def uid_in(stage: KarmadaStage, city: str) -> str:
    found = await stage.cell(city).get(compute.INSTANCES, name_in(city), stage.hub_namespace)
    return found.metadata.uid


async def run_in_pod(stage: KarmadaStage, city: str, script: str, workload: str = "web") -> str:
    """What a script prints in the Pod of a workload."""
    label = f"{compute.LABEL_WORKLOAD_DEPLOYMENT_NAME}={workload}-default-{city.lower()}"
    pods = await stage.cell(city).list(core.PODS, stage.hub_namespace, label_selector=label)
    [pod] = pods.items
    plane, namespace = stage.clusters.cells[city.lower()], f"--namespace={stage.hub_namespace}"
    command = (namespace, "exec", pod.name, "--", "sh", "-c", script)
    return await asyncio.to_thread(run_kubectl_on, plane, *command)


async def report_seconds(stage: KarmadaStage, city: str, before: str) -> float:
    """From the moment in which the successor of this Instance is Ready in its cell until the
    project shows it."""

    def is_ready(found: Object | None) -> bool:
        return found is not None and condition(found, "Ready")[0] == "True"

    def is_new(found: Object) -> bool:
        return found.metadata.uid != before and is_ready(found)

    cell, namespace = stage.cell(city), stage.hub_namespace
    ready = await until(cell, compute.INSTANCES, name_in(city), namespace, is_new, within=WITHIN)
    since = time.monotonic()
    while True:
        shown = await find(stage.project, compute.INSTANCES, name_in(city), NAMESPACE)
        uid = shown.metadata.annotations.get(compute.ANNOTATION_INSTANCE_UID) if shown else ""
        if uid == ready.metadata.uid and is_ready(shown):
            return time.monotonic() - since
        assert time.monotonic() - since < 60, shown
        await asyncio.sleep(0.05)


async def test_a_deployed_workload_answers_from_pods_in_two_cells(
    on: KarmadaStage, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    await types(
        on.kubeconfig,
        *("deploy", "web", f"--image={IMAGE}", "--city=DFW,LHR", "--port=http=80"),
        *("--window=0s", "--yes"),
    )
    deployed = time.monotonic() - started
    for city in BOTH:
        assert f"hello from {name_in(city)}" in await answer_of(on, city)
    before = {city: await uid_in(on, city) for city in BOTH}

    reports = asyncio.gather(*(report_seconds(on, city, before[city]) for city in BOTH))
    await types(on.kubeconfig, "deploy", "web", "--env=VERSION=2", "--window=0s", "--yes")
    delays = await reports
    for city in BOTH:
        assert f"hello from {name_in(city)}" in await answer_of(on, city)
    assert "DFW" in (await types(on.kubeconfig, "status", "web")).output
    await types(on.kubeconfig, "destroy", "web", "--yes")
    await on.empty()
    for city in BOTH:
        assert not (await on.cell(city).list(core.PODS, on.hub_namespace)).items

    with capsys.disabled():
        seconds = ", ".join(f"{each:.2f} s" for each in delays)
        print(f"\ndeployed to two cells in {deployed:.1f} s; Ready in the project after {seconds}")
    assert max(delays) < REPORTED_SECONDS


async def test_a_change_that_a_killed_kubelet_missed_arrives_when_it_is_back(
    on: KarmadaStage, nodes: Mapping[str, Node]
) -> None:
    await types(
        on.kubeconfig,
        *("deploy", "web", f"--image={IMAGE}", "--city=DFW,LHR", "--port=http=80"),
        *("--env=VERSION=1", "--window=0s", "--yes"),
    )
    address, before = await address_in(on, "DFW"), await uid_in(on, "LHR")
    with nodes["DFW"].without_kubelet():
        await types(on.kubeconfig, "deploy", "web", "--env=VERSION=2", "--no-wait", "--yes")
        await report_seconds(on, "LHR", before)
        assert await run_in_pod(on, "LHR", "echo $VERSION") == "2\n"
        assert f"hello from {name_in('DFW')}" in await http_get(address, 80), "it runs on"
    await types(on.kubeconfig, "rollout", "status", "web")
    for city in BOTH:
        assert f"hello from {name_in(city)}" in await answer_of(on, city)
        assert await run_in_pod(on, city, "echo $VERSION") == "2\n"


def reading(name: str) -> dict[str, Any]:
    """A workload with a ConfigMap and a Secret, each as variables and as files."""
    body = data.named(name, image=IMAGE)
    spec = body["spec"]["template"]["spec"]
    [container] = spec["runtime"]["sandbox"]["containers"]
    container["envFrom"] = [{"configMapRef": {"name": "settings"}, "prefix": "SET_"}]
    own = [{"key": "token", "path": "group/token", "mode": 0o440}]
    spec["volumes"] += [
        {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
        {"name": "own", "secret": {"secretName": "keys", "items": own}},
    ]
    container["volumeAttachments"] += [
        {"name": name, "mountPath": f"/etc/{name}"} for name in ("keys", "own")
    ]
    return body


SCRIPT = """
echo "$SET_colour $TOKEN"
for path in /etc/settings/colour /etc/keys/token /etc/own/group/token; do
  set -- $(ls -lL $path)
  echo "$1 $(cat $path)"
done
"""
PRINTED = """\
blue s3cr3t
-rw-r--r-- blue
-r-------- s3cr3t
-r--r----- s3cr3t
"""


async def test_two_workloads_share_a_config_map_and_a_secret_in_two_cells(
    on: KarmadaStage, tmp_path: Path
) -> None:
    await types(on.kubeconfig, "config", "set", "settings", "colour=blue")
    await types(on.kubeconfig, "secrets", "set", "keys", "token=s3cr3t")
    for name in ("web", "api"):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(reading(name)))
        await types(on.kubeconfig, "deploy", "-f", str(file), "--window=0s", "--yes")
    for name in ("web", "api"):
        for city in BOTH:
            assert await run_in_pod(on, city, SCRIPT, name) == PRINTED

    await types(on.kubeconfig, "destroy", "web", "--yes")
    await types(on.kubeconfig, "deploy", "api", "--city=DFW", "--window=0s", "--yes")
    for resource, name in SOURCES:
        await until_gone(on.cell("LHR"), resource, name, on.hub_namespace, within=WITHIN)
        assert await exists(on.hub, resource, name, on.hub_namespace), "one city names it"
        assert await exists(on.cell("DFW"), resource, name, on.hub_namespace)
    assert await run_in_pod(on, "DFW", SCRIPT, "api") == PRINTED

    await types(on.kubeconfig, "destroy", "api", "--yes")
    for resource, name in SOURCES:
        for client in (on.cell("DFW"), on.hub):
            await until_gone(client, resource, name, on.hub_namespace, within=WITHIN)
        assert await exists(on.project, resource, name, NAMESPACE), "the project keeps its own"
        await on.project.delete(resource, name, NAMESPACE)


def credential(image: PrivateImage) -> str:
    """What `docker login` writes."""
    login = {"username": image.username, "password": image.password}
    return json.dumps({"auths": {image.registry: login}})


async def test_kubelets_pull_a_private_image_with_its_secret(
    on: KarmadaStage, tmp_path: Path
) -> None:
    async with private_registry(busybox_image()) as image:
        await types(
            on.kubeconfig,
            *("deploy", "web", f"--image={image.reference}", "--city=DFW,LHR", "--port=http=80"),
            *("--no-wait", "--yes"),
        )

        async def unreported() -> str:
            for city in BOTH:
                obj = await find(on.project, compute.INSTANCES, name_in(city), NAMESPACE)
                found = "" if obj is None else json.dumps(values(obj.status))
                if compute.REASON_IMAGE_UNAVAILABLE not in found or "401" not in found:
                    return f"{city}: {found}"
            return ""

        await eventually("both kubelets are refused", unreported, within=WITHIN)
        file = tmp_path / "config.json"
        file.write_text(credential(image))
        await types(
            on.kubeconfig, "secrets", "set", "registry", f"--from-file=.dockerconfigjson={file}"
        )
        await types(
            on.kubeconfig, "deploy", "web", "--pull-secret=registry", "--window=0s", "--yes"
        )
        for city in BOTH:
            assert f"hello from {name_in(city)}" in await answer_of(on, city)
        await types(on.kubeconfig, "destroy", "web", "--yes")
        for client in (on.hub, *map(on.cell, BOTH)):
            await until_gone(client, core.SECRETS, "registry", on.hub_namespace, within=WITHIN)
        await on.project.delete(core.SECRETS, "registry", NAMESPACE)
