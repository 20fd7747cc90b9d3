"""The instance management policies by name; each is a module of this folder.

A policy is its module, a record here and its name in ``api/compute/constants.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances import ordered
from datum_compute.decisions.instances.plan import InstancePlan


class InstancePolicy(Protocol):
    def __call__(
        self,
        *,
        deployment_name: str,
        desired: int,
        template_hash: str,
        labels_for: Callable[[int], Mapping[str, str]],
        instances: Sequence[compute.Instance],
        hold_rolls: str = "",
    ) -> InstancePlan:
        """The plan for a deployment's Instances, whatever order they are given in. With
        ``hold_rolls``, a reason, nothing is replaced; creation and removal go on."""


POLICIES: Mapping[str, InstancePolicy] = {
    compute.POLICY_ORDERED_READY: ordered.decide_instances,
}


class UnknownPolicy(ValueError):
    """The policy of a deployment is none of :data:`POLICIES`."""


def find_policy(name: str) -> InstancePolicy:
    """Raises :class:`UnknownPolicy`."""
    if fault := policy_fault(name):
        raise UnknownPolicy(fault)
    return POLICIES[name or compute.POLICY_ORDERED_READY]


def policy_fault(name: str) -> str:
    """What is wrong with a policy; empty for a known one and for the default, which is empty
    on objects that bypassed admission."""
    if not name or name in POLICIES:
        return ""
    known = ", ".join(map(repr, POLICIES))
    return f"instance management policy {name!r} is not known; {known} is"
