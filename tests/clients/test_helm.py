"""helm installs, upgrades, rolls back and uninstalls a chart with a Workload."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from datum_compute.api import crds
from datum_compute.api.planes import PROJECT
from tests.support.clients.gadgets import GadgetPlane
from tests.support.cluster.differential import DEFINITIONS

pytestmark = [
    pytest.mark.clients,
    pytest.mark.realtime,
    pytest.mark.campaign,
    pytest.mark.timeout(1800),
]

CHART = Path(__file__).parent / "chart"
NAMESPACE = "/api/v1/namespaces/shop"
WORKLOAD = "/apis/compute.datumapis.com/v1alpha/namespaces/shop/workloads/shop"


class Helm:
    def __init__(self, binary: Path, kubeconfig: Path) -> None:
        self._binary = binary
        self._environment = {
            "PATH": os.defpath,
            "HOME": str(kubeconfig.parent),
            "KUBECONFIG": str(kubeconfig),
            "HELM_NAMESPACE": "shop",
        }

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [self._binary, *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=self._environment,
        )
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def history(self) -> list[tuple[int, str]]:
        found = json.loads(self.run("history", "shop", "-o", "json"))
        return [(each["revision"], each["status"]) for each in found]


def image_of(workload: dict[str, Any]) -> str:
    runtime = workload["spec"]["template"]["spec"]["runtime"]
    return str(runtime["sandbox"]["containers"][0]["image"])


def test_a_chart_is_installed_upgraded_rolled_back_and_uninstalled(
    helm_binary: Path, plane: GadgetPlane
) -> None:
    (definition,) = (
        each for each in crds.crds_for(PROJECT) if each["spec"]["names"]["kind"] == "Workload"
    )
    code, answer = plane.send("POST", DEFINITIONS, definition)
    assert code == 201, answer
    helm, chart = Helm(helm_binary, plane.kubeconfig), str(CHART)

    helm.run("install", "shop", chart, "--create-namespace", "--wait", "--timeout", "30s")
    assert image_of(plane.get(WORKLOAD)) == "docker.io/library/nginx:1.27"
    assert plane.get(f"{NAMESPACE}/configmaps/shop-config")["data"] == {"greeting": "hello"}
    assert plane.get(f"{NAMESPACE}/secrets/shop-key")["data"] == {"key": "dGV4dA=="}
    assert helm.history() == [(1, "deployed")]

    changes = ("image=docker.io/library/nginx:1.28", "replicas=3", "config=false")
    trial = helm.run("upgrade", "shop", chart, "--dry-run=server", "--set", ",".join(changes))
    assert "nginx:1.28" in trial
    assert image_of(plane.get(WORKLOAD)) == "docker.io/library/nginx:1.27"
    helm.run("upgrade", "shop", chart, "--set", ",".join(changes))
    upgraded = plane.get(WORKLOAD)
    assert image_of(upgraded) == "docker.io/library/nginx:1.28"
    assert upgraded["spec"]["placements"][0]["scaleSettings"]["minReplicas"] == 3
    assert plane.get(f"{NAMESPACE}/configmaps/shop-config") is None

    helm.run("rollback", "shop", "1")
    restored = plane.get(WORKLOAD)
    assert image_of(restored) == "docker.io/library/nginx:1.27"
    assert restored["metadata"]["uid"] == upgraded["metadata"]["uid"]
    assert plane.get(f"{NAMESPACE}/configmaps/shop-config")["data"] == {"greeting": "hello"}
    assert helm.history() == [(1, "superseded"), (2, "superseded"), (3, "deployed")]
    assert "kind: Workload" in helm.run("get", "manifest", "shop")

    helm.run("uninstall", "shop", "--wait", "--timeout", "30s")
    assert plane.get(WORKLOAD) is None
    for kind in ("configmaps", "secrets"):
        assert plane.get(f"{NAMESPACE}/{kind}")["items"] == []
    assert helm.run("list", "-q") == ""
