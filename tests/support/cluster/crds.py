"""The generated CRDs, established on a real cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.support.cluster.control_plane import ControlPlane
from tests.support.paths import ROOT

FOLDERS = (ROOT / "deploy" / "crds", ROOT / "deploy" / "local" / "crds")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED_SECONDS = 30.0


def definition_files(pattern: str = "*_*.yaml") -> list[Path]:
    """The files of definitions, our own and those of other systems."""
    return sorted(
        (file for folder in FOLDERS for file in folder.glob(pattern)), key=lambda file: file.name
    )


def established(control_plane: ControlPlane, crd: dict[str, Any]) -> dict[str, Any]:
    """Create the definition unless it is there; its conditions by type, once it is served."""
    status, answer = control_plane.request("POST", DEFINITIONS, crd)
    assert status == 201 or answer["reason"] == "AlreadyExists", answer["message"]
    deadline = time.monotonic() + ESTABLISHED_SECONDS
    while True:
        _, found = control_plane.request("GET", f"{DEFINITIONS}/{crd['metadata']['name']}")
        conditions = {
            each["type"]: each for each in found.get("status", {}).get("conditions") or ()
        }
        is_established = conditions.get("Established", {}).get("status") == "True"
        if is_established and _served(control_plane, crd):
            return conditions
        assert time.monotonic() < deadline, f"not established: {conditions}"
        time.sleep(0.05)


def _served(control_plane: ControlPlane, crd: dict[str, Any]) -> bool:
    """A new kind is answered with 404, and then with 429, for a moment after it is there."""
    group, version = crd["spec"]["group"], crd["spec"]["versions"][0]["name"]
    path = f"/apis/{group}/{version}/{crd['spec']['names']['plural']}"
    return control_plane.request("GET", path).status == 200
