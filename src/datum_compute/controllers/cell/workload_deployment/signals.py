"""Events and metrics of the cell's WorkloadDeployment controller.

Events on the deployment: ``Scaled`` when the desired number changes, ``Recreated`` for each
Instance that is replaced by one of the newest template, one Event when the first Instance is
ready, and a Warning for a blocking reason and for an orphan. Metrics count the actions on
Instances by kind, and the orphans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.cell.workload_deployment.orphans import ORPHAN_SECONDS, OrphanMonitor
from datum_compute.decisions import status_events
from datum_compute.decisions.instances import plan
from datum_compute.decisions.status_events import NORMAL, EventContent
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.events import EventRecorder
from datum_compute.runtime.metrics.registry import MetricsRegistry

COMPONENT = "workload-deployment-controller"


def _action_label(reason: plan.DeleteReason) -> str:
    return "delete_stray" if reason is plan.DeleteReason.STRAY else reason.name.lower()


class DeploymentSignals:
    def __init__(
        self, env: Environment, metrics: MetricsRegistry | None, orphans: OrphanMonitor
    ) -> None:
        self.registry = metrics if metrics is not None else MetricsRegistry()
        self._events = EventRecorder(COMPONENT, env, self.registry)
        deletions = map(_action_label, plan.DeleteReason)
        actions = ("create", "patch_labels", "suspend", "resume", *deletions)
        self._actions = self.registry.counter(
            "compute_instance_actions_total",
            f"Actions on the Instances of a cell: {', '.join(actions)}."
            " Rolls are recreate and replace_unready.",
            "action",
        )
        for action in actions:
            self._actions.labels(action)
        self.registry.gauge(
            "compute_orphaned_deployments",
            "Deployments of the cell that neither the hub nor Karmada knows; each is deleted after"
            f" {ORPHAN_SECONDS / 60:.0f} minutes.",
        ).labels().track(lambda: float(orphans.count))

    async def record_actions(
        self,
        cell: Cluster,
        deployment: Object,
        found: Iterable[Object],
        actions: Sequence[plan.Action],
    ) -> None:
        """Call after the actions; ``found`` are the Instances before them."""
        removes = any(isinstance(action, plan.Delete) for action in actions)
        going = {each.metadata.uid for each in found if each.metadata.deleting} if removes else ()
        for action in actions:
            if isinstance(action, plan.Create):
                self._actions.labels("create").inc()
            elif isinstance(action, plan.PatchLabels):
                self._actions.labels("patch_labels").inc()
            elif isinstance(action, plan.Suspend | plan.Resume):
                self._actions.labels(type(action).__name__.lower()).inc()
            elif isinstance(action, plan.Delete) and action.uid not in going:
                self._actions.labels(_action_label(action.reason)).inc()
                if action.reason.is_roll:
                    text = f"Replacing Instance {action.name} by one of the newest template"
                    notice = EventContent(NORMAL, compute.REASON_RECREATED, text)
                    await self._events.record(cell.client, deployment, notice)

    async def record_events(self, cell: Cluster, deployment: Object, written: Object) -> None:
        """Call after the status is stored; ``deployment`` is the state it replaced."""
        found = status_events.decide_deployment_events(
            deployment.view(compute.WorkloadDeployment).status,
            written.view(compute.WorkloadDeployment).status,
        )
        await self._events.record(cell.client, written, *found)
