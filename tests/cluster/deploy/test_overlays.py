"""Every overlay renders and applies on the real API server without an unknown field or a warning;
a cell writes only its own copies on a hub; the service account may issue its certificate."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import roles
from scripts.cluster_tools import ensure_tools
from tests.support import overlays
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.crds import definition_files, established
from tests.support.cluster.roles import KNOWN_WITHIN, manager_token
from tests.support.overlays import COMPONENTS, DEPLOY, OVERLAYS

pytestmark = [pytest.mark.cluster, pytest.mark.realtime]

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


NUMBERS_OR_TEXT = {"x-kubernetes-int-or-string": True}
MATCH = _object(matchLabels={"type": "object", "additionalProperties": TEXT})
FOREIGN = {
    ("cert-manager.io", "v1", "certificates", "Certificate"): _object(
        secretName=TEXT, dnsNames=TEXTS, issuerRef=_object(group=TEXT, kind=TEXT, name=TEXT)
    ),
    ("cert-manager.io", "v1", "issuers", "Issuer"): _object(selfSigned=_object()),
    ("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"): _object(
        selector=MATCH,
        endpoints={"type": "array", "items": _object(port=TEXT, path=TEXT, interval=TEXT)},
    ),
    ("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule"): _object(
        groups={
            "type": "array",
            "items": _object(
                name=TEXT,
                rules={
                    "type": "array",
                    "items": _object(
                        alert=TEXT,
                        expr=NUMBERS_OR_TEXT,
                        **{"for": TEXT},
                        labels={"type": "object", "additionalProperties": TEXT},
                        annotations={"type": "object", "additionalProperties": TEXT},
                    ),
                },
            ),
        }
    ),
}
"""The fields of other systems' kinds that the overlays use, from their documentation: any other
field is an error, as with the real definitions."""


def definition(group: str, version: str, plural: str, kind: str, spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object(spec=spec)},
                }
            ],
        },
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane(ensure_tools()) as running:
        for (group, version, plural, kind), spec in FOREIGN.items():
            established(running, definition(group, version, plural, kind, spec))
        for file in definition_files("config.karmada.io_*.yaml"):
            established(running, yaml.safe_load(file.read_text()))
        yield running


def kubectl(cluster: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    config = cluster.write_kubeconfig(cluster.directory / "overlays.kubeconfig")
    command = [str(ensure_tools() / "kubectl"), f"--kubeconfig={config}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def apply(cluster: ControlPlane, folder: Path) -> list[str]:
    """What was applied, as kubectl prints it."""
    done = kubectl(cluster, "apply", "--server-side", "--validate=strict", "-k", str(folder))
    # A field that a definition does not have, or a Pod that the namespace would refuse, is there.
    assert (done.returncode, done.stderr) == (0, "")
    return [line.removesuffix(" serverside-applied") for line in done.stdout.splitlines()]


def until(holds: Callable[[], bool], what: str) -> None:
    """Roles and policies take effect a moment after they are stored."""
    deadline = time.monotonic() + KNOWN_WITHIN
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.2)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_applies_without_an_unknown_field_or_a_warning(
    cluster: ControlPlane, overlay: str
) -> None:
    applied = apply(cluster, DEPLOY / "overlays" / overlay)

    assert ("deployment.apps/compute-manager" in applied) == (overlay != "federation")
    shipped = {each["kind"].lower() for each in overlays.shipped(overlay)}
    assert shipped <= {line.partition("/")[0].partition(".")[0] for line in applied}


def test_all_components_apply_together(cluster: ControlPlane, tmp_path: Path) -> None:
    """Those of certificates exclude each other, and one of them is enough."""
    chosen = [each for each in COMPONENTS if each not in ("self-signed", "csi-webhook-cert")]
    deploy = os.path.relpath(DEPLOY, tmp_path)  # kustomize takes no absolute path
    built = {
        "resources": [f"{deploy}/base/single", f"{deploy}/base/manager"],
        "components": [f"{deploy}/components/{each}" for each in chosen],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(built))

    applied = apply(cluster, tmp_path)

    assert {"servicemonitor.monitoring.coreos.com/compute-manager"} <= set(applied)


@pytest.mark.parametrize("overlay", [each for each in OVERLAYS if overlays.manager(each)])
def test_kustomize_gives_a_manager_what_the_checks_have_read(overlay: str) -> None:
    """The checks without kubectl read the files by themselves."""
    command = [str(ensure_tools() / "kubectl"), "kustomize", str(DEPLOY / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    rendered = list(yaml.load_all(done.stdout, yaml.CSafeLoader))
    [deployment] = [each for each in rendered if each["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    read = overlays.manager(overlay)
    assert read is not None

    [config] = [
        each for each in rendered if each["kind"] == "ConfigMap" and "config.yaml" in each["data"]
    ]
    assert [each["args"] for each in spec["containers"]] == [
        each["args"] for each in read["containers"]
    ]
    assert {each["name"] for each in spec["volumes"]} == {each["name"] for each in read["volumes"]}
    [mounted] = [each["configMap"] for each in spec["volumes"] if each["name"] == "config"]
    assert mounted["name"] == config["metadata"]["name"] != "compute-manager"
    text = (DEPLOY / "overlays" / overlay / "config.yaml").read_text()
    assert config["data"] == {"config.yaml": text}
    assert all(":" in each["image"] for each in spec["containers"])


INSTANCES = "/apis/compute.datumapis.com/v1alpha/namespaces/default/instances"
SPEC = {
    "runtime": {
        "resources": {"instanceType": "datumcloud/d1-standard-2"},
        "sandbox": {"containers": [{"name": "web", "image": "nginx"}]},
    },
    "networkInterfaces": [{"network": {"name": "default"}}],
}


def instance(name: str, cell: str | None) -> dict[str, Any]:
    labels = {} if cell is None else {"compute.datumapis.com/source-cluster": cell}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Instance",
        "metadata": {"name": name, "labels": labels},
        "spec": SPEC,
    }


class Cell:
    """The user of a cell on the hub."""

    def __init__(self, cluster: ControlPlane, name: str) -> None:
        self._cluster = cluster
        self._headers = {"Impersonate-User": name, "Impersonate-Group": "compute-cells"}

    def create(self, name: str, cell: str | None) -> int:
        return self._send("POST", INSTANCES, instance(name, cell))

    def label(self, name: str, cell: str | None, subresource: str = "") -> int:
        labels = {"compute.datumapis.com/source-cluster": cell}
        return self._send(
            "PATCH", f"{INSTANCES}/{name}{subresource}", {"metadata": {"labels": labels}}
        )

    def report(self, name: str) -> int:
        body: dict[str, Any] = {"status": {"conditions": []}}
        return self._send("PATCH", f"{INSTANCES}/{name}/status", body)

    def delete(self, name: str) -> int:
        return self._send("DELETE", f"{INSTANCES}/{name}")

    def _send(self, method: str, path: str, body: Any = None) -> int:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self._cluster.request(
            method, path, body, headers=self._headers, content_type=kind
        ).status


def test_a_cell_writes_only_its_own_copies_on_the_hub(cluster: ControlPlane) -> None:
    apply(cluster, DEPLOY / "overlays/federation")
    dfw, lhr = Cell(cluster, "compute-cell-dfw"), Cell(cluster, "compute-cell-lhr")
    stranger = Cell(cluster, "system:serviceaccount:default:default")
    for name, cell in (("lost", None), ("foreign", "lhr")):
        assert cluster.request("POST", INSTANCES, instance(name, cell)).status == 201
    until(lambda: dfw.create("own", "dfw") in (201, 409), "the roles take effect")
    until(lambda: dfw.create(f"probe-{time.monotonic_ns()}", "lhr") == 422, "the policy does")

    assert dfw.create("unnamed", None) == 422
    assert stranger.create("any", "dfw") == 422
    assert dfw.report("own") == 200
    assert dfw.report("foreign") == 422
    assert dfw.label("foreign", "dfw") == 422, "taking a copy over"
    assert dfw.label("own", "lhr") == 422, "passing a copy on"
    assert dfw.label("lost", "dfw") == 200, "a copy that lost its label is taken back"
    assert dfw.delete("foreign") == 422
    assert lhr.delete("foreign") == 200
    assert dfw.delete("own") == 200


def test_the_service_account_issues_its_certificate_with_its_own_rights(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    apply(cluster, DEPLOY / "overlays/dev")
    config = tmp_path / "manager.kubeconfig"
    cluster.write_kubeconfig(config, user="compute-manager", token=manager_token(cluster))
    text = yaml.safe_load(config.read_text())
    text["contexts"][0]["context"]["namespace"] = roles.NAMESPACE
    config.write_text(yaml.safe_dump(text))
    issue = (
        *(sys.executable, "-m", "datum_compute.assembly.manager.main"),
        *(f"--kubeconfig={config}", f"--issue-webhook-certificate={tmp_path}"),
    )

    def issued() -> bool:
        done = subprocess.run(issue, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 or "forbidden" in done.stderr, done.stderr
        return done.returncode == 0

    until(issued, "the rights take effect")

    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/compute-workloads"
    found = cluster.request("GET", path).body["webhooks"][0]["clientConfig"]["caBundle"]
    assert base64.b64decode(found) == (tmp_path / "ca.crt").read_bytes()
