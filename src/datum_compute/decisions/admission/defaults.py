"""The defaults of a Workload.

Only values that mean the same as an absent field: they leave the template's hash as it is, so
filling them in restarts nothing. They are the schema's defaults too, repeated here for servers
that admit before they prune and default.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from datum_compute.api.compute import constants

_EACH = "[]"

_CONTAINERS = ("template", "spec", "runtime", "sandbox", "containers", _EACH)
_INTERFACES = ("template", "spec", "networkInterfaces", _EACH)

_DEFAULTS: tuple[tuple[tuple[str, ...], str], ...] = (
    ((*_CONTAINERS, "ports", _EACH, "protocol"), "TCP"),
    (("template", "spec", "runtime", "virtualMachine", "ports", _EACH, "protocol"), "TCP"),
    ((*_INTERFACES, "networkPolicy", "ingress", _EACH, "ports", _EACH, "protocol"), "TCP"),
    (("template", "spec", "volumes", _EACH, "disk", "template", "spec", "type"), "pd-standard"),
    (
        ("placements", _EACH, "scaleSettings", "instanceManagementPolicy"),
        constants.POLICY_ORDERED_READY,
    ),
)


@dataclass(frozen=True, slots=True)
class Default:
    """A value for an absent field whose parent exists."""

    path: tuple[str | int, ...]
    value: str


def decide_defaults(workload: Any) -> tuple[Default, ...]:
    """What to fill in; nothing on an object that has all defaults."""
    return tuple(
        Default(path, value)
        for steps, value in _DEFAULTS
        for path in _missing(workload, ("spec", *steps), ())
    )


def with_defaults(workload: Any) -> Any:
    """A copy of the workload with everything filled in."""
    filled = copy.deepcopy(workload)
    for default in decide_defaults(workload):
        *steps, last = default.path
        parent = filled
        for step in steps:
            parent = parent[step]
        parent[last] = default.value
    return filled


def _missing(
    value: Any, steps: tuple[str, ...], path: tuple[str | int, ...]
) -> Iterator[tuple[str | int, ...]]:
    step, *rest = steps
    if step == _EACH:
        for i, item in _items(value):
            yield from _missing(item, tuple(rest), (*path, i))
    elif not isinstance(value, dict):
        return
    elif rest:
        yield from _missing(value.get(step), tuple(rest), (*path, step))
    elif value.get(step) is None:
        yield (*path, step)


def _items(value: Any) -> Iterable[tuple[int, Any]]:
    return enumerate(value) if isinstance(value, list) else ()
