"""Images made in memory, for hosts that reach no registry: a docker archive of one layer."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def build_archive(
    reference: str,
    programs: Mapping[str, bytes],
    links: Mapping[str, str],
    command: Sequence[str],
    *,
    texts: Mapping[str, str] | None = None,
) -> bytes:
    """What ``docker save`` writes for an image with these files, for ``ContainerEngine.load``."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        for path, content in programs.items():
            add_file(files, path, content, 0o755)
        for path, text in (texts or {}).items():
            add_file(files, path, text.encode(), 0o644)
        for path, target in links.items():
            link = tarfile.TarInfo(path)
            link.type, link.linkname = tarfile.SYMTYPE, target
            files.addfile(link)
    content = layer.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    configuration = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Cmd": list(command), "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created_by": "datum-compute"}],
        }
    ).encode()
    name = hashlib.sha256(configuration).hexdigest()
    manifest = [
        {"Config": f"{name}.json", "RepoTags": [reference], "Layers": [f"{digest}/layer.tar"]}
    ]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as files:
        add_file(files, f"{digest}/layer.tar", content, 0o644)
        add_file(files, f"{name}.json", configuration, 0o644)
        add_file(files, "manifest.json", json.dumps(manifest).encode(), 0o644)
    return archive.getvalue()


def add_file(files: tarfile.TarFile, path: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    files.addfile(entry, io.BytesIO(content))
