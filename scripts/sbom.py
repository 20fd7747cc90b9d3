"""A list of what is in an image, in the form of CycloneDX 1.5."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

Component = Mapping[str, object]


def document(name: str, version: str, components: Sequence[Component]) -> dict[str, object]:
    """The same for the same contents: it holds neither a time nor a serial number."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name, "version": version}},
        "components": sorted(components, key=lambda each: str(each["purl"])),
    }


def distributions(folder: Path) -> list[Component]:
    """The Python distributions that are installed in a folder."""
    return [
        _component(
            found.name, found.version, f"pkg:pypi/{quote(found.name.lower())}@{found.version}"
        )
        for found in importlib.metadata.distributions(path=[str(folder)])
    ]


def debian_package(name: str, version: str, architecture: str) -> Component:
    purl = f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={architecture}"
    return _component(name, version, purl)


def _component(name: str, version: str, purl: str) -> Component:
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": purl,
        "bom-ref": purl,
    }
