"""Copies each WorkloadDeployment of a project to the hub, and its status back.

It owns, on the hub: the namespace ``ns-<uid>`` with its upstream labels, the
WorkloadDeployment (spec, the label ``topology.datum.net/city-code`` and the
upstream labels, annotations ``source-generation`` and ``propagation-requested-at``, and copies
of ``expected-referenced-data`` and ``referenced-data-error``) and the PropagationPolicy of each
city. In the project it owns the finalizer
``compute.datumapis.com/federator``, annotation ``federation-namespace`` and the status of the
WorkloadDeployment.

Steps, in calling order (:mod:`.reconcile`):

1. check that the hub aggregates the status of deployments, and log when it does not
   (:mod:`.interpreter`);
2. finalizer and ``federation-namespace`` in one write, before anything exists on the hub, so
   that deletion finds the hub namespace even when the project's namespace cannot be read;
3. namespace, policy and deployment on the hub (:mod:`.hub_objects`);
4. whether Karmada propagates the copy; where it does not, an annotation asks it to look again
   (:mod:`.propagation`);
5. status (:mod:`.status`): the hub copy's, with the conditions below, which follow from Karmada's
   binding (:mod:`.bindings`); Events and metrics (:mod:`.signals`).

On deletion (:mod:`.removal`): scale the hub copy to zero, keep copying its status, delete the
copy once it reports zero, wait until copy, binding and Works are deleted, delete the policy when
no other deployment needs it, release the finalizer. A hub copy whose creation arrives after that
is deleted by the next reconcile, such a policy by a second controller (:mod:`.policies`).

Conditions it writes: ``CellReachable``, ``Scheduled``, while a cell does not take a change
``Propagated``, and while a deletion waits ``Removed``;
and ``Available`` and ``ReplicasReady`` as False while ``Scheduled`` is False, since then no cell
reports them.
"""

from datum_compute.controllers.management.federation.controller import federator
from datum_compute.controllers.management.federation.policies import policy_cleanup_controller

__all__ = ["federator", "policy_cleanup_controller"]
