"""The instance management policies by name; each is a module of this folder.

A policy is its name in ``api/compute/constants.py`` and the module of that name in snake case
(``OrderedReady``: ``ordered_ready.py``) with a function ``decide_instances``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Protocol

from datum_compute.api.compute import v1alpha as compute
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
        suspended: bool = False,
    ) -> InstancePlan:
        """The plan for a deployment's Instances, whatever order they are given in. With
        ``hold_rolls``, a reason, nothing is replaced; creation and removal go on. While it is
        ``suspended``, none is created, replaced or removed, unless none is wanted."""


def _load(name: str) -> InstancePolicy:
    module = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    decide: InstancePolicy = import_module(f"{__package__}.{module}").decide_instances
    return decide


POLICIES: Mapping[str, InstancePolicy] = {name: _load(name) for name in compute.POLICIES}


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
    return f"unknown instance management policy {name!r}; known: {known}"
