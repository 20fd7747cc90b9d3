"""What a change will do, said before it is done: every changed field, old → new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    field: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.old} → {self.new}"


NOTHING = "(none)"

KEYED = {
    "placements": "name",
    "containers": "name",
    "env": "name",
    "ports": "name",
    "volumes": "name",
}
"""Lists whose items have a name: compared item by item, wherever they stand."""

WORDS = {
    "template.spec.runtime.resources.instanceType": "instance type",
    "template.metadata.annotations.compute.datumapis.com/restartedAt": "restarted at",
}


def changes(old_spec: Mapping[str, Any], new_spec: Mapping[str, Any]) -> list[Change]:
    old, new = dict(_leaves(old_spec)), dict(_leaves(new_spec))
    paths = list(dict.fromkeys([*old, *new]))
    return [
        Change(_word(path), old.get(path, NOTHING), new.get(path, NOTHING))
        for path in paths
        if old.get(path) != new.get(path)
    ]


def operations(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """The JSON patch that makes ``new`` of ``old``, which stands at ``path``. It touches
    only what differs; lists are whole."""
    found: list[dict[str, Any]] = []
    for key in old:
        if key not in new:
            found.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
    for key, value in new.items():
        place, before = f"{path}/{_escaped(key)}", old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            found += operations(before, value, place)
        elif key not in old or before != value:
            found.append({"op": "add", "path": place, "value": value})
    return found


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    field = path.rpartition(".")[2]
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and field in KEYED:
        for item in value:
            name = item.get(KEYED[field], "?")
            inner = {k: v for k, v in item.items() if k != KEYED[field]}
            yield from _leaves(inner, f"{path}[{name}]")
    elif isinstance(value, list):
        yield path, ", ".join(map(str, value)) or NOTHING
    else:
        yield path, str(value)


def _word(path: str) -> str:
    """The name a person uses for a field; the path itself where there is none."""
    if path in WORDS:
        return WORDS[path]
    container, _, field = path.removeprefix("template.spec.runtime.sandbox.").partition("].")
    if container.startswith("containers["):
        suffix = "" if container == "containers[app" else f" ({container[11:]})"
        if field.startswith("env["):
            return f"env {field[4:].split(']')[0]}{suffix}"
        if field.startswith("ports["):
            return f"port {field[6:].split(']')[0]}{suffix}"
        return f"{field}{suffix}"
    if path.startswith("placements["):
        placement, _, field = path[11:].partition("].")
        word = {"cityCodes": "cities", "scaleSettings.minReplicas": "min replicas"}.get(
            field, field
        )
        return f"{word} ({placement})"
    return path
