"""The artifact of manifests is a sound OCI layout, the SBOM lists what is installed, and the image
holds no more than it needs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from pathlib import Path
from typing import Any

import datum_compute
from scripts import build_image, sbom
from scripts.build_artifact import write_layout
from tests.support import overlays
from tests.support.overlays import DEPLOY
from tests.support.paths import ROOT

FILES = {"cell.yaml": b"kind: A\n", "dev.yaml": b"kind: B\n"}


def read_blob(folder: Path, descriptor: dict[str, Any]) -> bytes:
    algorithm, _, digest = str(descriptor["digest"]).partition(":")
    content = (folder / "blobs" / algorithm / digest).read_bytes()
    assert hashlib.new(algorithm, content).hexdigest() == digest
    assert len(content) == descriptor["size"]
    return content


def test_the_artifact_holds_each_file_under_its_digest_and_name(tmp_path: Path) -> None:
    write_layout(tmp_path / "a", FILES, "1.2.3")

    index = json.loads((tmp_path / "a/index.json").read_text())
    [entry] = index["manifests"]
    assert entry["annotations"] == {"org.opencontainers.image.ref.name": "1.2.3"}
    manifest = json.loads(read_blob(tmp_path / "a", entry))
    assert read_blob(tmp_path / "a", manifest["config"]) == b"{}"
    held = {
        layer["annotations"]["org.opencontainers.image.title"]: read_blob(tmp_path / "a", layer)
        for layer in manifest["layers"]
    }
    assert held == FILES
    assert json.loads((tmp_path / "a/oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}


def test_the_same_files_give_the_same_artifact(tmp_path: Path) -> None:
    for name in ("a", "b", "a"):
        write_layout(tmp_path / name, FILES, "1")

    assert _digest(tmp_path / "a") == _digest(tmp_path / "b")
    write_layout(tmp_path / "b", {**FILES, "dev.yaml": b"kind: C\n"}, "1")
    assert _digest(tmp_path / "a") != _digest(tmp_path / "b")


def _digest(folder: Path) -> str:
    digest: str = json.loads((folder / "index.json").read_text())["manifests"][0]["digest"]
    return digest


def test_the_sbom_lists_every_distribution_with_its_version() -> None:
    installed = Path(importlib.metadata.distribution("msgspec").locate_file(""))  # type: ignore[arg-type]

    listed = sbom.document("x", "1", sbom.distributions(installed))["components"]

    found = {each["name"]: each["version"] for each in listed}  # type: ignore[attr-defined]
    assert found["msgspec"] == importlib.metadata.version("msgspec")
    assert len(found) == len(
        {each.name for each in importlib.metadata.distributions(path=[str(installed)])}
    )


def test_a_debian_package_is_listed_by_its_url() -> None:
    made = sbom.debian_package("libstdc++6", "12.2.0-14+deb12u1", "amd64")

    assert made["purl"] == "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64"


def test_the_image_is_the_one_that_the_overlays_start() -> None:
    [image] = overlays.kustomization(DEPLOY / "overlays/cell")["images"]

    assert f"{image['name']}:{image['newTag']}" == build_image.IMAGE
    spec = overlays.manager("cell")
    assert spec is not None
    user = spec["securityContext"]["runAsUser"]
    lines = (ROOT / "Containerfile").read_text().splitlines()
    assert f"USER {user}:{user}" in lines
    assert "FROM scratch" in lines
    assert build_image.IMAGE.endswith(f":{datum_compute.__version__}")


def test_the_image_takes_no_package_with_a_shell() -> None:
    shells = {"bash", "dash", "busybox", "busybox-static", "zsh", "mksh", "perl-base", "coreutils"}

    assert not shells & set(build_image.PACKAGES)
