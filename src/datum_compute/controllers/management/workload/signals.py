"""Events of the Workload controller: one when a Workload becomes available, a Warning when it no
longer is, or when a blocking reason needs a person to act."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.decisions import status_events
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.events import EventRecorder
from datum_compute.runtime.metrics.registry import MetricsRegistry

COMPONENT = "workload-controller"


class WorkloadSignals:
    def __init__(self, env: Environment, metrics: MetricsRegistry | None) -> None:
        self.registry = metrics if metrics is not None else MetricsRegistry()
        self._events = EventRecorder(COMPONENT, env, self.registry)

    async def record_events(self, project: Cluster, workload: Object, written: Object) -> None:
        """Call after the status is stored; ``workload`` is the state it replaced."""
        found = status_events.decide_workload_events(
            workload.view(compute.Workload).status.conditions,
            written.view(compute.Workload).status.conditions,
        )
        await self._events.record(project.client, written, *found)
