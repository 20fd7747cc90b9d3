"""Federates each WorkloadDeployment of a project to the hub, and mirrors its status back.

It owns, on the hub: the namespace ``ns-<uid>`` with its upstream labels, the
WorkloadDeployment (spec, the labels ``topology.datum.net/city-code`` and
``upstream-namespace``, annotation ``source-generation``) and the PropagationPolicy of each
city. In the project it owns the finalizer ``compute.datumapis.com/federator``, annotation
``federation-namespace`` and the status of the WorkloadDeployment.

Steps, in calling order (:mod:`.reconcile`):

1. finalizer and ``federation-namespace`` in one write, before anything exists on the hub,
   so that deletion never depends on what else can still be read;
2. namespace, policy, deployment on the hub (:mod:`.hub_objects`);
3. status: the hub's, with the conditions below in place of its own (:mod:`.status`), from
   Karmada's binding (:mod:`.bindings`); Events and metrics (:mod:`.signals`). Whether the hub
   aggregates status at all is checked first (:mod:`.interpreter`).

On deletion (:mod:`.removal`): scale the hub copy to zero, keep mirroring, delete the copy once
it reports zero, wait until copy, binding and Works are deleted, delete the policy when no other
deployment needs it, release the finalizer. A policy whose creation arrives only after that is
deleted by a second controller (:mod:`.policies`).

Conditions it writes: ``CellReachable`` and ``Scheduled``; and ``Available`` and
``ReplicasReady`` as False while ``Scheduled`` is False, since then no cell reports them.
"""

from datum_compute.controllers.management.federation.controller import federator
from datum_compute.controllers.management.federation.policies import policy_cleanup_controller

__all__ = ["federator", "policy_cleanup_controller"]
