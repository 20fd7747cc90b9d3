"""Which process needs which rights, on which type of plane.

The rights were recorded: :mod:`datum_compute.assembly.recorded_rights` holds every call that
any process makes in any scenario, and a test records them anew and compares. From there the
roles in ``deploy/base`` are written, and a local platform grants exactly the same to the users
its processes act as.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from datum_compute.apiserver.request.access import PolicyRule
from datum_compute.assembly.recorded_rights import RECORDED

MANAGEMENT = "compute-management"
CELL = "compute-cell"
SINGLE = "compute-single"
WEBHOOKS = "compute-webhooks"
ELECTION = "compute-election"
PROVIDER = "provider"

IN_CELLS = (CELL, PROVIDER)
"""They run once in each cell, as a user of that cell's name, and act on no other cell."""

CORE = "core"
"""How a line names the group without a name."""

Rights = Mapping[str, tuple[PolicyRule, ...]]
"""By type of plane."""


@cache
def recorded() -> Mapping[str, Rights]:
    """The rights of each process."""
    found: dict[str, dict[str, tuple[PolicyRule, ...]]] = {}
    for section in RECORDED.strip().split("\n\n"):
        head, *rest = section.splitlines()
        process, plane = head.split()
        found.setdefault(process, {})[plane] = tuple(_rule(line) for line in rest)
    return found


def _rule(line: str) -> PolicyRule:
    what, verbs = line.split()
    group, _, resource = what.partition("/")
    return PolicyRule("" if group == CORE else group, resource, tuple(verbs.split(",")))


def of_user(user: str) -> Rights:
    """By plane, or type of plane: nothing for somebody who is no process of ours."""
    for process in IN_CELLS:
        cell = user.removeprefix(f"{process}-")
        if cell != user:
            rights = dict(recorded().get(process, {}))
            return {f"cell/{cell}" if on == "cell" else on: rules for on, rules in rights.items()}
    return recorded().get(user, {})
