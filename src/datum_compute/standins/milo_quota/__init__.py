"""The stand-in for Milo's quota: grants make budgets, claims take from them.

The :mod:`.registrations` of the root plane say what can be counted. By them new claims are
judged before they are stored (:mod:`.admission`, for the API server to ask). On project
planes :mod:`.grants` makes a grant active, and :mod:`.allocation` adds the active ones up
into AllowanceBuckets and judges ResourceClaims; :mod:`.policies` gives each project its first
grant, and :mod:`.cleanup` takes away denied claims that nobody reads.

What is kept of the real system (a denied claim stays denied, and may keep what other buckets
gave it) and what is left out is told in ``docs/concepts/stand-ins.md``.
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
