"""The overlays of ``deploy``, read from their files: what each is made of, and what its manager is
started with. ``kubectl kustomize`` renders them; this needs no kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
OVERLAYS = sorted(path.name for path in (DEPLOY / "overlays").iterdir())
COMPONENTS = sorted(path.name for path in (DEPLOY / "components").iterdir())
CELL_PLACEHOLDER = "<cell>"
"""What an operator replaces by the name of the cell."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def kustomization(folder: Path) -> dict[str, Any]:
    [found] = documents(folder / "kustomization.yaml")
    return found


def folders(folder: Path) -> Iterator[Path]:
    """The folder and every one that it builds on."""
    yield folder
    built = kustomization(folder)
    for name in [*built.get("resources", ()), *built.get("components", ())]:
        if (folder / name).is_dir():
            yield from folders((folder / name).resolve())


def shipped(overlay: str) -> list[dict[str, Any]]:
    """The objects of the files, before patches and without definitions."""
    return [
        document
        for folder in folders(DEPLOY / "overlays" / overlay)
        if folder.name != "crds"
        for name in kustomization(folder).get("resources", ())
        if (folder / name).is_file()
        for document in documents(folder / name)
    ]


def added(overlay: str) -> Iterator[dict[str, Any]]:
    """The operations of all patches."""
    for folder in folders(DEPLOY / "overlays" / overlay):
        for patch in kustomization(folder).get("patches", ()):
            yield from yaml.safe_load(patch["patch"])


def manager(overlay: str) -> dict[str, Any] | None:
    """The pod that the Deployment makes, with all patches; None where the overlay has none."""
    found = [each for each in shipped(overlay) if each["kind"] == "Deployment"]
    if not found:
        return None
    [deployment] = found
    prefix = "/spec/template/spec/"
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    for change in added(overlay):
        if change["op"] != "add" or not change["path"].startswith(prefix):
            continue
        *steps, last = change["path"].removeprefix(prefix).split("/")
        target: Any = spec
        for step in steps:
            target = target[int(step)] if isinstance(target, list) else target[step]
        if last == "-":
            target.append(change["value"])
        else:
            target[last] = change["value"]
    return spec


def arguments(overlay: str, directory: Path, cell: str = "dfw") -> list[str]:
    """What the manager is started with, its configuration being a file in ``directory``."""
    spec = manager(overlay)
    assert spec is not None
    config = directory / "config.yaml"
    text = (DEPLOY / "overlays" / overlay / "config.yaml").read_text()
    config.write_text(text.replace(CELL_PLACEHOLDER, cell))
    return [
        f"--server-config={config}" if each.startswith("--server-config=") else each
        for each in spec["containers"][0]["args"]
    ]
