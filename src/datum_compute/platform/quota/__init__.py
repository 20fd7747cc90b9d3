"""The stand-in for Milo's quota: grants make budgets, claims take from them.

It runs on project planes. :mod:`.grants` makes a grant active; :mod:`.allocation` adds the
active ones up into AllowanceBuckets and judges ResourceClaims. What it keeps of the real
system (a denied claim stays denied, and may keep what other buckets gave it) and what it
leaves out is told in ``docs/concepts/stand-ins.md``.
"""

from __future__ import annotations

from datum_compute.env import Environment
from datum_compute.platform.quota.allocation import allocation_controller
from datum_compute.platform.quota.grants import grant_controller
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.fleet import Fleet


def quota_controllers(projects: Fleet, env: Environment) -> list[Controller]:
    return [grant_controller(projects, env), allocation_controller(projects, env)]


__all__ = ["quota_controllers"]
