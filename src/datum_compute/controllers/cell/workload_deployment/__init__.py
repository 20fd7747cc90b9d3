"""Keeps the Instances of a WorkloadDeployment in number and revision, in one cell.

It owns the cell's WorkloadDeployment status and its finalizer
``compute.datumapis.com/workload-controller``; of each Instance its existence, spec, labels
and the gate ``Network``; and the NetworkBindings and SubnetClaims the Instances need. The
deployment's spec is the hub's. Karmada carries its status up.

Steps, in calling order (:mod:`.reconcile`):

1. finalizer; while being deleted instead, delete all Instances and wait for the last
   (:mod:`.removal`);
2. networks (:mod:`.networks`): create what is missing, see what is ready. A failure here is
   raised at the end: it must not stop Instances from being created or replaced;
3. instances (:mod:`.instances`): decide by the deployment's policy, then act; without contact
   to hub and project nothing is replaced;
4. gates: once networks are ready, remove ``Network`` from the Instances that have it;
5. status: counters and conditions, decided in :mod:`datum_compute.decisions.rollup.deployment`
   and rate-limited; Events and metrics (:mod:`.signals`).

Conditions it writes: ``Available`` and ``ReplicasReady``, with the project's generation.
"""

from datum_compute.controllers.cell.workload_deployment.controller import (
    workload_deployment_controller,
)

__all__ = ["workload_deployment_controller"]
