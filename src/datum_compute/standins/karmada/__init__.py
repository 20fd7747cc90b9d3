"""The stand-in for Karmada: propagates templates from the hub to members, and status back.

It works on the real objects (Cluster, PropagationPolicy, ResourceBinding, Work,
ResourceInterpreterCustomization, Namespace) with their real labels, annotations and
finalizers, so other clients of them see no difference. ``docs/develop/stand-in-facts.md`` lists
what it keeps of the real system and what it leaves out.

Downwards: :mod:`.policies` admits a policy; the :mod:`.detector` claims templates and creates
their bindings; :mod:`.bindings` chooses members and creates :mod:`.works`; :mod:`.execution`
applies them to the members, each as a :mod:`.manifest`. Status returns through the same three.
:mod:`.dependencies` lets what a template refers to follow it.
:mod:`.clusters` tracks the members' health by :mod:`.probe`, :mod:`.namespaces` propagates
namespaces to all of them, and :mod:`.orphans` deletes objects that arrive after their Work or
binding was deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.scheme import Resource
from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller
from datum_compute.runtime.fleet import Fleet
from datum_compute.standins.karmada.bindings import binding_controller
from datum_compute.standins.karmada.clusters import cluster_controller
from datum_compute.standins.karmada.dependencies import DEPENDENCIES, dependencies_controller
from datum_compute.standins.karmada.detector import detector_controllers
from datum_compute.standins.karmada.execution import execution_controller
from datum_compute.standins.karmada.namespaces import namespace_controller
from datum_compute.standins.karmada.policies import policy_controller

PROPAGATED: tuple[Resource, ...] = (compute.WORKLOAD_DEPLOYMENTS,)
"""Kinds that policies can claim by default. Real Karmada discovers all of them; hub Instances
match no policy, so leaving them out saves a watch and changes nothing."""


MAX_DELAY_SECONDS = 10.0
"""How late at most a Work is tried again after its member is back; Karmada's
``--rate-limiter-max-delay``, which is 1,000 s by default."""


def karmada_controllers(
    hub: Fleet,
    members: Fleet,
    env: Environment,
    *,
    kinds: Sequence[Resource] = PROPAGATED,
    max_delay: float = MAX_DELAY_SECONDS,
) -> list[Controller]:
    """``members`` names its clusters as the hub's Cluster objects are named."""
    carried = (*kinds, *DEPENDENCIES)
    return [
        cluster_controller(hub, members, kinds, env),
        namespace_controller(hub, env),
        policy_controller(hub, kinds, env),
        *detector_controllers(hub, kinds, env),
        binding_controller(hub, carried, env),
        dependencies_controller(hub, kinds, env),
        execution_controller(hub, members, carried, env, max_delay=max_delay),
    ]


__all__ = ["MAX_DELAY_SECONDS", "PROPAGATED", "karmada_controllers"]
