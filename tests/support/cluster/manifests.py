"""Shipped manifests, rendered and applied by kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from scripts.cluster_tools import ensure_tools
from tests.support.cluster.control_plane import ControlPlane
from tests.support.overlays import CELL_PLACEHOLDER, DEPLOY

FOREIGN = ("cert-manager.io/",)
"""Groups of other systems that do not run here."""

Manifest = dict[str, Any]


def run_kubectl(*words: str, stdin: str = "") -> str:
    command = [str(ensure_tools() / "kubectl"), *words]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
    return done.stdout


def render(overlay: str, *components: str, cell: str = "") -> list[Manifest]:
    """An overlay with further components, as a kustomization of an operator combines them."""
    with tempfile.TemporaryDirectory() as folder:
        deploy = os.path.relpath(DEPLOY, Path(folder).resolve())  # kustomize takes no absolute path
        built = {
            "resources": [f"{deploy}/overlays/{overlay}"],
            "components": [f"{deploy}/components/{each}" for each in components],
        }
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(built))
        text = run_kubectl("kustomize", folder)
    return list(yaml.load_all(text.replace(CELL_PLACEHOLDER, cell), yaml.CSafeLoader))


def apply(plane: ControlPlane, manifests: Sequence[Manifest]) -> None:
    items = [each for each in manifests if not each["apiVersion"].startswith(FOREIGN)]
    apply_text(plane, json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def apply_text(plane: ControlPlane, text: str) -> None:
    run_kubectl_on(plane, "apply", "--server-side", "--filename=-", stdin=text)


def run_kubectl_on(plane: ControlPlane, *words: str, stdin: str = "") -> str:
    config = plane.write_kubeconfig(plane.directory / f"{threading.get_ident()}.kubeconfig")
    # The cache is named after the port, which another cluster may have had.
    cache = plane.directory / "kubectl-cache"
    return run_kubectl(f"--kubeconfig={config}", f"--cache-dir={cache}", *words, stdin=stdin)


def wait_established(plane: ControlPlane) -> None:
    """Until every definition is served."""
    words = ("wait", "--for=condition=Established", "customresourcedefinitions", "--all")
    run_kubectl_on(plane, *words, "--timeout=60s")


def service_account_token(
    plane: ControlPlane, namespace: str, account: str, *audiences: str, seconds: int = 3600
) -> str:
    spec: dict[str, Any] = {"expirationSeconds": seconds}
    if audiences:
        spec["audiences"] = list(audiences)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    status, answer = plane.request("POST", path, body)
    assert status == 201, answer
    return str(answer["status"]["token"])
