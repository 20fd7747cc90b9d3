"""The roles of ``deploy/base``, read back from the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from datum_compute.testing.calls import RecordedCall
from tests.support.paths import ROOT

BASE = ROOT / "deploy" / "base"


def documents(folder: str = "") -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted((BASE / folder).rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path, document


def allowed() -> set[RecordedCall]:
    """What the files allow: to a process, named by the file, on a plane, named by the folder."""
    found: set[RecordedCall] = set()
    for path, document in documents():
        if document["kind"] in ("ClusterRole", "Role"):
            for rule in document["rules"]:
                # Anything else would widen or narrow it by what is not compared.
                assert rule.keys() == {"apiGroups", "resources", "verbs"}, (path, rule)
                found |= {
                    RecordedCall(path.stem, path.parent.name, group, resource, verb)
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                    for verb in rule["verbs"]
                }
    return found
