"""Which process needs which rights, on which type of plane.

``rights.toml`` holds every call that any process makes in any recorded scenario;
``make record-rights`` writes it, and a test records again and compares. The roles in
``deploy/base`` are generated from it, and a local platform grants exactly the same to the users
its processes act as.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from datum_compute.api import planes
from datum_compute.apiserver.request.access import PolicyRule

MANAGEMENT = "compute-management"
CELL = "compute-cell"
SINGLE = "compute-single"
WEBHOOKS = "compute-webhooks"
ELECTION = "compute-election"
ROUTER = "local-router"
PROVIDER = "provider"
POD_PROVIDER = "pod-provider"

IN_CELLS = (CELL, PROVIDER)
"""Processes that run once in each cell, as a user with that cell's name, and act on no other
cell."""

CORE = "core"
"""The name of the core group in the file, where the API has an empty one."""

Rights = Mapping[str, tuple[PolicyRule, ...]]
"""By type of plane, or by one of three other places: ``single``, a cluster that is all planes in
one, ``host``, the cluster a manager runs in, and ``pods``, one in which Instances are Pods."""


@cache
def recorded() -> Mapping[str, Rights]:
    """The rights of each process."""
    text = resources.files(__package__).joinpath("rights.toml").read_text(encoding="utf-8")
    return {
        process: {
            plane: tuple(_rule(resource, verbs) for resource, verbs in rules.items())
            for plane, rules in planes.items()
        }
        for process, planes in tomllib.loads(text).items()
    }


def _rule(name: str, verbs: list[str]) -> PolicyRule:
    group, _, resource = name.partition("/")
    return PolicyRule("" if group == CORE else group, resource, tuple(verbs))


def of_user(user: str) -> Rights:
    """By plane, or type of plane; empty for a user that is no process of the platform."""
    for process in IN_CELLS:
        cell = user.removeprefix(f"{process}-")
        if cell != user:
            rights = dict(recorded().get(process, {}))
            return {
                planes.CELL.plane(cell) if on == planes.CELL.name else on: rules
                for on, rules in rights.items()
            }
    return recorded().get(user, {})
