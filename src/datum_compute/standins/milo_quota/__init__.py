"""The stand-in for Milo's quota: grants make budgets, claims take from them.

The :mod:`.registrations` of the root plane define the resource types, and :mod:`.admission`
reviews new claims by them. On project planes :mod:`.grants` activates grants, and
:mod:`.allocation` adds the active ones up into AllowanceBuckets and decides ResourceClaims;
:mod:`.policies` gives each project its first grant, and :mod:`.cleanup` deletes denied claims
that admission created.

``docs/develop/stand-in-facts.md`` lists what is kept of the real system (a denied claim stays
denied, and may keep what other buckets gave it) and what is left out.
"""

from __future__ import annotations

from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.fleet import Fleet
from datum_compute.standins.milo_quota.admission import ClaimReviews
from datum_compute.standins.milo_quota.allocation import allocation_controller
from datum_compute.standins.milo_quota.cleanup import cleanup_controller
from datum_compute.standins.milo_quota.grants import grant_controller
from datum_compute.standins.milo_quota.policies import policy_controller
from datum_compute.standins.milo_quota.registrations import registration_controller


def quota_controllers(projects: Fleet, root: Fleet, env: Environment) -> list[Controller]:
    return [
        registration_controller(root, env),
        grant_controller(projects, root, env),
        policy_controller(projects, root, env),
        allocation_controller(projects, env),
        cleanup_controller(projects),
    ]


__all__ = ["ClaimReviews", "quota_controllers"]
