"""The commands of the page about installing, run as they are written.

Those that need a running Deployment are run where managers are Pods, see `RUN_ELSEWHERE`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.cluster_tools import ensure_tools
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.crds import definition_files, established
from tests.support.cluster.karmada import KarmadaClusters
from tests.support.paths import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.karmada]

PAGE = ROOT / "docs/operate/install.md"
RUN_ELSEWHERE = {
    "rollout status": "tests/support/cluster/managers/rollout.py",
    "exec deployment/compute-manager": "tests/cluster/karmada/test_managers_as_pods.py",
    "apply -k deploy/overlays/single-cluster": "tests/cluster/deploy/test_overlays.py",
    "apply -k deploy/overlays/management-plane": "tests/cluster/deploy/test_overlays.py",
    "apt-get install": "tests/cluster/conftest.py",
    "make image": "tests/cluster/conftest.py",
    "buildah push": "scripts/build_image.py",
}
"""Part of a command -> where it runs: what it needs is not on these planes (nodes, cert-manager, a
registry)."""


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


def is_run_elsewhere(command: str) -> bool:
    return any(part in command for part in RUN_ELSEWHERE)


@pytest.fixture(scope="module")
def milo() -> Iterator[ControlPlane]:
    """An API server with the kinds of Milo, for the commands about root and projects."""
    with ControlPlane(ensure_tools()) as running:
        for file in definition_files("*.miloapis.com_*.yaml"):
            established(running, yaml.safe_load(file.read_text()))
        for kind, plural in (("Role", "roles"), ("ProtectedResource", "protectedresources")):
            established(running, definition(kind, plural))
        yield running


def definition(kind: str, plural: str) -> dict[str, Any]:
    """A kind of Milo that the local platform does not have; its fields are checked elsewhere."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.iam.miloapis.com"},
        "spec": {
            "group": "iam.miloapis.com",
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version | {"schema": {"openAPIV3Schema": anything}}],
        },
    }


def test_every_command_is_run(
    clusters: KarmadaClusters, milo: ControlPlane, tmp_path: Path
) -> None:
    planes = {"hub": clusters.hub, "management": clusters.management, "dfw": clusters.cells["dfw"]}
    planes |= {"root": milo, "project": milo}
    for name, plane in planes.items():
        plane.write_kubeconfig(tmp_path / f"{name}.kubeconfig")
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    environment = os.environ | {"PATH": f"{ensure_tools()}:{os.environ['PATH']}"}
    ran = [command for command in commands() if not is_run_elsewhere(command)]
    assert len(ran) >= 8
    before = definitions_of_others(clusters.hub)
    assert len(before) > 10
    for command in ran:
        # What is there already, from the fixtures, is as the commands would make it.
        tried = command.replace("apply -", "apply --server-side --force-conflicts -")
        tried = tried.replace("label cluster", "label --overwrite cluster")
        if "create clusterrolebinding" in tried:
            tried += " --dry-run=server --output=name"
        done = subprocess.run(
            ["sh", "-c", tried],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        known = "already exists" in done.stderr and "clusterrolebinding" in tried
        assert done.returncode == 0 or known, f"{command}: {done.stderr}"
    assert definitions_of_others(clusters.hub) == before, "kinds of Karmada stay as they are"


def definitions_of_others(plane: ControlPlane) -> dict[str, Any]:
    """The kinds of the plane that are not ours."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    found = plane.request("GET", path).body["items"]
    return {
        each["metadata"]["name"]: each["spec"]
        for each in found
        if each["spec"]["group"] != "compute.datumapis.com"
    }


def test_what_runs_elsewhere_is_still_on_the_page_and_there() -> None:
    for part, place in RUN_ELSEWHERE.items():
        assert any(part in command for command in commands()), part
        assert (ROOT / place).is_file()
