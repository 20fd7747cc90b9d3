"""The overlays of a single cluster, from the built image, as Pods of a real kubelet: from
`kubectl apply` to a Workload that is Available and answers.

The API server reaches the webhooks at the Pods themselves, as no kube-proxy runs. Where an overlay
expects cert-manager, the test makes the Secret and the `caBundle` that it would.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.networking import v1alpha as networking
from datum_compute.apiserver.http.certificates import ensure_certificates
from datum_compute.client import connect, errors, kubeconfig
from datum_compute.client.client import ApiClient
from datum_compute.env import SystemEnvironment
from scripts.cluster_tools import DEFAULT_TOOLS, NODE_TOOLS, ensure_tools
from tests.support.cluster import audit
from tests.support.cluster.command_line import types
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.managers.rollout import DEPLOYMENT, IMAGE_NAME, SYSTEM, running_pods
from tests.support.cluster.manifests import apply, render, run_kubectl_on
from tests.support.cluster.namespaces import ClusterNamespace, given_city
from tests.support.cluster.node import IMAGE, KubeletCredential, Node
from tests.support.cluster.roles import define_kinds
from tests.support.objects import condition
from tests.support.providers.pod_harness import http_get

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kubelet,
    pytest.mark.image,
    pytest.mark.realtime,
]


@pytest.fixture(scope="module")
def cluster(
    manager_image: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    tools = ensure_tools([*DEFAULT_TOOLS, *NODE_TOOLS])
    folder = tmp_path_factory.mktemp("single")
    credential = KubeletCredential(folder)
    (folder / "audit.yaml").write_text(yaml.safe_dump(audit.POLICY))
    log = folder / "audit.log"
    # A run that is terminated cleans up as one that is interrupted does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = (
        *credential.apiserver_arguments(),
        f"--audit-policy-file={folder / 'audit.yaml'}",
        f"--audit-log-path={log}",
        "--enable-aggregator-routing=true",
    )
    with ControlPlane(tools, apiserver_arguments=arguments, mounts_tokens=True) as plane:
        define_kinds(plane)
        node = Node(plane, tools, credential, runs_deployments=True)
        with node:
            node.import_image(manager_image, IMAGE_NAME)
            yield plane
        assert node.leftovers() == []
    calls = [each for each in audit.read_calls(log, "single") if each.code == 403]
    # Only the check asks for these, and says that it may not read them.
    denied = [each for each in calls if "webhookconfigurations" not in each.right.resource]
    assert denied == [], "rights are missing"


def play_cert_manager(plane: ControlPlane, directory: Path) -> None:
    """Make the Secret of the overlay's Certificate, and put its authority into the webhooks."""
    names = ("compute-webhooks.compute-system.svc",)
    directory.mkdir()
    made = ensure_certificates(directory, SystemEnvironment(), names)
    pair = {"tls.crt": made.certificate.read_bytes(), "tls.key": made.key.read_bytes()}
    data = {name: base64.b64encode(content).decode() for name, content in pair.items()}
    metadata = {"name": "compute-webhook-certificate", "namespace": "compute-system"}
    apply(plane, [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}])
    authority = base64.b64encode(made.ca_pem).decode()
    path = "/webhooks/0/clientConfig/caBundle"
    change = json.dumps([{"op": "add", "path": path, "value": authority}])
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        run_kubectl_on(
            plane, "patch", kind, "compute-workloads", "--type=json", f"--patch={change}"
        )


@contextlib.asynccontextmanager
async def installed(
    plane: ControlPlane, overlay: str, directory: Path
) -> AsyncIterator[ClusterNamespace]:
    """As the page about installing says; afterwards the Deployment is gone."""
    path = plane.write_kubeconfig(directory / "kubeconfig")
    connection = kubeconfig.load(str(path), env=SystemEnvironment())
    transport = connect.transport_for(connection)
    client = ApiClient(transport, cluster="single", token=connection.token, user_agent="test")
    place = ClusterNamespace(client, "default")
    try:
        await given_city(client)
        network = {"metadata": {"name": "default"}, "spec": {"ipam": {"mode": "Auto"}}}
        with contextlib.suppress(errors.AlreadyExists):
            await client.create(networking.NETWORKS, network, place.namespace)
        await asyncio.to_thread(apply, plane, render(overlay))
        if overlay == "single-cluster":
            await asyncio.to_thread(play_cert_manager, plane, directory / "certificate")
        async with running_pods(plane):
            yield place
    finally:
        await client.close()


async def typed(plane: ControlPlane, *words: str) -> None:
    """As an administrator of the cluster."""
    home = plane.directory / "home"
    home.mkdir(exist_ok=True)
    await types(plane.write_kubeconfig(home / "kubeconfig"), *words)


async def serves(plane: ControlPlane, place: ClusterNamespace) -> float:
    """Deploy from the command line until it answers; the seconds until it was Available."""
    started = time.monotonic()
    await typed(
        plane,
        *("deploy", "web", f"--image={IMAGE}", "--city=DFW", "--port=http=80"),
        *("--window=0s", "--yes"),
    )
    seconds = time.monotonic() - started
    found = await place.client.get(compute.WORKLOADS, "web", place.namespace)
    assert condition(found, "Available")[0] == "True"
    [(name, instance)] = (await place.instances()).items()
    [interface] = instance.status.network_interfaces
    assert interface.assignments.network_ip is not None
    assert f"hello from {name}" in await http_get(interface.assignments.network_ip, 80)
    return seconds


async def destroyed(plane: ControlPlane, place: ClusterNamespace) -> None:
    await typed(plane, "destroy", "web", "--yes")
    await place.gone()
    assert not (await place.client.list(core.PODS, place.namespace)).items


async def test_the_overlay_of_a_single_cluster_serves_from_the_image(
    cluster: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with installed(cluster, "single-cluster", tmp_path) as place:
        pods = (await place.client.list(core.PODS, "compute-system")).items
        assert len(pods) == 2, "replicas of one Deployment"
        seconds = await serves(cluster, place)
        checked = await asyncio.to_thread(run_kubectl_on, cluster, SYSTEM, *check())
        assert "Nothing is missing." in checked, checked
        placement = {"name": "x", "cityCodes": ["XYZ"], "scaleSettings": {"minReplicas": 1}}
        wrong: dict[str, Any] = {"spec": {"placements": [placement]}}
        refused = cluster.request(
            "PATCH",
            f"/apis/compute.datumapis.com/v1alpha/namespaces/{place.namespace}/workloads/web",
            wrong,
            content_type="application/merge-patch+json",
        )
        assert refused.status in (403, 422), "a webhook in a Pod reviews"
        assert "denied the request" in refused.body["message"]
        await destroyed(cluster, place)
    with capsys.disabled():
        print(f"\nsingle cluster from the image: deployed and Available in {seconds:.1f} s")


def check() -> tuple[str, ...]:
    """The command of the page about installing, with the flags of this overlay."""
    return (
        *("exec", DEPLOYMENT, "--", "/usr/bin/compute-manager", "--check"),
        *("--enable-management-controllers", "--enable-cell-controllers"),
        "--server-config=/etc/compute-manager/config.yaml",
    )


async def test_the_overlay_for_a_try_issues_its_certificate_and_serves_from_the_image(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    async with installed(cluster, "dev", tmp_path) as place:
        assert len((await place.client.list(core.PODS, "compute-system")).items) == 1
        await serves(cluster, place)
        await destroyed(cluster, place)
