"""Commands that write, against a real API server: a single cluster without Milo beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.cluster_tools import ensure_tools
from tests.support.cluster.control_plane import ADMIN_USER, ControlPlane
from tests.support.cluster.crds import definition_files, established

pytestmark = pytest.mark.cluster

BINDINGS = "/apis/networking.datumapis.com/v1alpha/locationbindings"
WORKLOAD = "/apis/compute.datumapis.com/v1alpha/namespaces/default/workloads/api"


class Person:
    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "datum_compute.cli", *words]
        return subprocess.run(
            [*command, "--kubeconfig", str(self._kubeconfig)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={
                "HOME": str(self._kubeconfig.parent),
                "PATH": os.defpath,
                "DATUM_RUNTIME": "simulated",
            },
        )

    def succeeds(self, *words: str) -> str:
        done = self.types(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout


def install(cluster: ControlPlane, group: str) -> None:
    for file in definition_files(f"{group}_*.yaml"):
        established(cluster, yaml.safe_load(file.read_text(encoding="utf-8")))


def create(cluster: ControlPlane, path: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    version = path.split("/")[2:4]
    body = {
        "apiVersion": "/".join(version),
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    status, answer = cluster.request("POST", path, body)
    assert status == 201, answer


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """A cluster of its own: the test changes which kinds are served."""
    with ControlPlane(ensure_tools()) as running:
        install(running, "compute.datumapis.com")
        install(running, "networking.datumapis.com")
        topology = {"topology.datum.net/city-code": "DFW"}
        spec = {"locationRef": {"name": "dfw"}, "topology": topology}
        create(running, BINDINGS, "LocationBinding", "dfw", spec)
        _, found = running.request("GET", f"{BINDINGS}/dfw")
        available = {
            "type": "Available",
            "status": "True",
            "reason": "Opened",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        found["status"] = {"conditions": [available]}
        status, answer = running.request("PUT", f"{BINDINGS}/dfw/status", found)
        assert status == 200, answer
        networks = "/apis/networking.datumapis.com/v1alpha/namespaces/default/networks"
        create(running, networks, "Network", "default", {"ipam": {"mode": "Auto"}})
        yield running


@pytest.fixture(scope="module")
def person(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person(cluster.write_kubeconfig(tmp_path_factory.mktemp("person") / "kubeconfig"))


def test_changes_are_recorded_and_undone_and_access_is_checked_where_it_is_served(
    cluster: ControlPlane, person: Person
) -> None:
    person.succeeds("deploy", "api", "--image=a/api:1", "--city=DFW", "--no-wait")
    person.succeeds("deploy", "api", "--image=a/api:2", "--label=team=web", "--no-wait")
    _, found = cluster.request("GET", WORKLOAD)
    found["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = 3
    assert cluster.request("PUT", WORKLOAD, found)[0] == 200
    person.succeeds("scale", "api", "--min", "2", "--no-wait")
    person.succeeds("rollout", "undo", "api", "--to-revision", "1", "--yes", "--no-wait")
    person.succeeds("restart", "api", "--no-wait")

    history = json.loads(person.succeeds("rollout", "history", "api", "-o", "json"))
    recorded = [(each["changes"], each["actor"]) for each in reversed(history)]
    assert recorded == [
        ("created", ADMIN_USER),
        ("label team, image 1 → 2", ADMIN_USER),
        ("external change: min replicas (default) 1 → 3", ""),
        ("min replicas (default) 3 → 2", ADMIN_USER),
        ("rollback to #1", ADMIN_USER),
        ("restart", ADMIN_USER),
    ]
    unchanged = person.types("deploy", "api", "--image=a/api:1", "--dry-run", "--exit-code")
    assert unchanged.returncode == 0, unchanged.stderr
    assert "not needed" in person.succeeds("access")

    install(cluster, "services.miloapis.com")
    assert person.types("workloads").returncode == 10
    person.succeeds("access", "request")
    pending = person.types("workloads")
    assert pending.returncode == 12, "no controller activates it here"
    assert pending.stderr.startswith("Access to compute was requested ")
