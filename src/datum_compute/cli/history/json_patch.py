"""What a change will do, said before it is done: every changed field, old → new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datum_compute.cli.render.spec_diff import diff_specs


@dataclass(frozen=True)
class FieldChange:
    field: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.old} → {self.new}"


def changes(old_spec: Mapping[str, Any], new_spec: Mapping[str, Any]) -> list[FieldChange]:
    found = diff_specs(old_spec, new_spec)
    return [FieldChange(change.label, change.old, change.new) for change in found]


def patch_operations(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str
) -> list[dict[str, Any]]:
    """The JSON patch that makes ``new`` of ``old``, which stands at ``path``. It touches
    only what differs; lists are whole."""
    found: list[dict[str, Any]] = []
    for key in old:
        if key not in new:
            found.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
    for key, value in new.items():
        place, before = f"{path}/{_escaped(key)}", old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            found += patch_operations(before, value, place)
        elif key not in old or before != value:
            found.append({"op": "add", "path": place, "value": value})
    return found


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
