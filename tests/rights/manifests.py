"""The roles of ``deploy/base``, read back from the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from datum_compute.testing.calls import Call

BASE = Path(__file__).parents[2] / "deploy" / "base"


def documents(folder: str = "") -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted((BASE / folder).rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path, document


def allowed() -> set[Call]:
    """What the files allow: to a process, named by the file, on a plane, named by the folder."""
    found: set[Call] = set()
    for path, document in documents():
        if document["kind"] in ("ClusterRole", "Role"):
            for rule in document["rules"]:
                # Anything else would widen or narrow it by what is not compared.
                assert rule.keys() == {"apiGroups", "resources", "verbs"}, (path, rule)
                found |= {
                    Call(path.stem, path.parent.name, group, resource, verb)
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                    for verb in rule["verbs"]
                }
    return found
