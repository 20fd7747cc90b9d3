#!/usr/bin/env python3
"""Render every overlay into one YAML file, and all of them into an OCI artifact.

``dist/manifests`` gets the files, ``dist/artifact`` a layout of OCI with a layer for each, which
``oras``, ``skopeo`` and others copy to a registry. The same sources give the same bytes. kubectl
renders: that of the path, or the one that the cluster suite builds.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from datum_compute import __version__  # noqa: E402
from scripts.cluster_tools import KUBECTL, ToolsError, ensure_tools  # noqa: E402

OVERLAYS = ROOT / "deploy/overlays"
ARTIFACT = "application/vnd.datum.compute.manifests.v1"
YAML = "application/yaml"
EMPTY = "application/vnd.oci.empty.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"

Descriptor = dict[str, object]


def rendered() -> dict[str, bytes]:
    """File name -> content, for each overlay."""
    kubectl = shutil.which("kubectl") or str(ensure_tools([KUBECTL]) / "kubectl")
    return {
        f"{overlay.name}.yaml": subprocess.check_output([kubectl, "kustomize", str(overlay)])
        for overlay in sorted(OVERLAYS.iterdir())
    }


def write_layout(folder: Path, files: Mapping[str, bytes], version: str) -> None:
    """An OCI layout with one artifact, a layer for each file."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "blobs/sha256").mkdir(parents=True)

    def blob(content: bytes, media_type: str, **annotations: str) -> Descriptor:
        digest = hashlib.sha256(content).hexdigest()
        (folder / "blobs/sha256" / digest).write_bytes(content)
        found: Descriptor = {
            "mediaType": media_type,
            "digest": f"sha256:{digest}",
            "size": len(content),
        }
        if annotations:
            named = {f"org.opencontainers.image.{key}": it for key, it in annotations.items()}
            found["annotations"] = {key.replace("_", "."): it for key, it in named.items()}
        return found

    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": ARTIFACT,
        "config": blob(b"{}", EMPTY),
        "layers": [blob(content, YAML, title=name) for name, content in sorted(files.items())],
        "annotations": {"org.opencontainers.image.version": version},
    }
    found = blob(_json(manifest), MANIFEST, ref_name=version)
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [found]}
    (folder / "index.json").write_bytes(_json(index))
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def main() -> int:
    try:
        files = rendered()
    except ToolsError as error:
        print(f"build-artifact: no kubectl on the path, and {error}", file=sys.stderr)
        return 1
    manifests = ROOT / "dist/manifests"
    manifests.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (manifests / name).write_bytes(content)
    write_layout(ROOT / "dist/artifact", files, __version__)
    print(f"{len(files)} files in dist/manifests, and together in dist/artifact")
    return 0


if __name__ == "__main__":
    sys.exit(main())
