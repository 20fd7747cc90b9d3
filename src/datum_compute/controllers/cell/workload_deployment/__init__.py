"""Keeps the Instances of a WorkloadDeployment in number and revision, in one cell.

It owns the cell's WorkloadDeployment status and its finalizer
``compute.datumapis.com/workload-controller``; of each Instance its existence, spec, labels
and the gate ``Network``; and the NetworkBindings and SubnetClaims the Instances need. The
deployment's spec is the hub's. Its status is carried up by Karmada, not by us.

Steps, in calling order (:mod:`.reconcile`):

1. finalizer; while being deleted instead, delete all Instances and wait for the last
   (:mod:`.removal`);
2. networks (:mod:`.networks`): ask for what is missing, see what is ready. A failure here
   is kept for the end: it must not stop Instances from being created or replaced;
3. instances (:mod:`.instances`): decide, then act, one step at a time where order counts;
   while the hub is out of contact nothing that exists is replaced;
4. gates: once networks are ready, take ``Network`` off the Instances that have it;
5. status (:mod:`.status`): counters and conditions, coalesced in time.

Conditions it writes: ``Available`` and ``ReplicasReady``, with the project's generation.
"""

from datum_compute.controllers.cell.workload_deployment.controller import (
    workload_deployment_controller,
)

__all__ = ["workload_deployment_controller"]
