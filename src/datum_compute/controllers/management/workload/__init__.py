"""Turns a Workload into one WorkloadDeployment per placement and city, in the project.

It owns the Workload's status and its finalizer ``compute.datumapis.com/workload-controller``,
and every WorkloadDeployment of the project but for its status: existence, spec, the label
``workload-uid``. The template's ``restartedAt`` is shared with ``restart --city``: the later
of the two counts.

Steps, in calling order (:mod:`.reconcile`):

1. finalizer; while being deleted instead, delete the deployments and wait for the last;
2. networks: every interface's Network must exist in the Workload's namespace;
3. placement: which deployments are wanted, given the LocationBindings that are available;
4. deployments (:mod:`.deployments`): create, correct, and delete those the spec no longer
   names; a name that a deployment of an earlier Workload still holds is waited for;
5. status, from the deployments there are, those on their way out included.

Condition it writes: ``Available``, of the Workload and of each placement.
"""

from datum_compute.controllers.management.workload.controller import workload_controller

__all__ = ["workload_controller"]
