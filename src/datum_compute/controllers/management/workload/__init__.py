"""Creates one WorkloadDeployment per placement and city of a Workload, in the project.

It owns the Workload's status and its finalizer ``compute.datumapis.com/workload-controller``, and
every WorkloadDeployment of the project except for its status: existence, owner, spec, the label
``workload-uid``, the annotations ``replaced-by``, ``rollout-state``, ``last-good-template`` and
``http-port``, and those values of ``suspended`` that stand for the Workload and its project.
``restart --city`` also writes the template's ``restartedAt``: the later time wins. A template with
``roll-on-config-change`` gets the annotation ``data-hash``, from ``delivered-data`` on the
deployment.

Steps, in calling order (:mod:`.reconcile`):

1. finalizer; while being deleted instead, delete the deployments and wait for the last;
2. suspension: stop or start the deployments with the Workload or the project;
3. networks: every interface's Network must exist in the Workload's namespace; while one is
   missing, step 6 is skipped;
4. placement: which deployments are wanted, given the LocationBindings of the project;
5. rollout: which template each may have; before one moves under a rollout policy, Workload and
   deployments are read live and the rollout is decided again;
6. deployments (:mod:`.deployments`): create, correct, and delete those the spec no longer
   names, once what replaces them is Available; wait while a deployment of an earlier Workload
   still has the name;
7. status, from all deployments, those being deleted included; Events (:mod:`.signals`).

Conditions it writes: ``Available``, of the Workload and of each placement; with a rollout policy
``Progressing``, ``Reconciling`` and ``Stalled`` of the Workload.
"""

from datum_compute.controllers.management.workload.controller import workload_controller

__all__ = ["workload_controller"]
