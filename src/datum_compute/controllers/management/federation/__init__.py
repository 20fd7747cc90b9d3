"""Takes each WorkloadDeployment of a project to the hub, and brings its status back.

It owns, on the hub: the namespace ``ns-<uid>`` with its upstream labels, the
WorkloadDeployment (spec, the labels ``topology.datum.net/city-code`` and
``upstream-namespace``, annotation ``source-generation``) and the PropagationPolicy of each
city. In the project it owns the finalizer ``compute.datumapis.com/federator``, annotation
``federation-namespace`` and the status of the WorkloadDeployment.

Steps, in calling order (:mod:`.reconcile`):

1. finalizer and ``federation-namespace`` in one write, before anything exists on the hub,
   so that the end of a deployment never depends on what else is still readable;
2. namespace, policy, deployment on the hub (:mod:`.placing`);
3. status: the hub's, with the conditions below in place of its own (:mod:`.status`).

On deletion (:mod:`.draining`): ask the cell for zero Instances, go on mirroring, delete the
hub copy once it reports zero, wait until copy, binding and Works are gone, remove the
policy when nobody else needs it, release the finalizer. A policy whose creation arrives only
after that is taken away by :mod:`.policies`.

Conditions it writes: ``CellReachable`` and ``Scheduled``; and ``Available`` and
``ReplicasReady`` as False while ``Scheduled`` is False, since then no cell can speak.
"""

from datum_compute.controllers.management.federation.controller import federator
from datum_compute.controllers.management.federation.policies import policy_cleanup_controller

__all__ = ["federator", "policy_cleanup_controller"]
