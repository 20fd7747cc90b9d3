"""Keeps a WorkloadDeployment at its desired number of Instances of the newest template.

It owns the cell's WorkloadDeployment status and its finalizer
``compute.datumapis.com/workload-controller``; of each Instance its existence, spec, labels,
the gate ``Network`` and the annotation ``suspended``; and the NetworkBindings and SubnetClaims the
Instances need. The deployment's spec comes from the hub, and Karmada copies its status there.

Steps, in calling order (:mod:`.reconcile`):

1. finalizer; while being deleted instead, delete all Instances and wait for the last
   (:mod:`.removal`);
2. orphans (:mod:`.orphans`): a deployment that the hub no longer has is reported, and deleted
   after ten minutes;
3. networks (:mod:`.networks`): create what is missing, check what is ready. A failure is raised
   only at the end: it must not stop Instances from being created or replaced;
4. instances (:mod:`.instances`): decide by the deployment's policy, then act; while hub or
   project are unreachable nothing is replaced; while the deployment is stopped all are marked;
5. gates: once networks are ready, remove ``Network`` from the Instances that have it;
6. status: counters and conditions, decided in :mod:`datum_compute.decisions.rollup.deployment`
   and rate-limited; Events and metrics (:mod:`.signals`).

Conditions it writes: ``Available``, ``ReplicasReady`` and, for an orphan, ``FoundOnHub``, with the
project's generation.
"""

from datum_compute.controllers.cell.workload_deployment.controller import (
    workload_deployment_controller,
)

__all__ = ["workload_deployment_controller"]
