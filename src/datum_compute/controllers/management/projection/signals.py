"""Events and metrics of the projector.

Events on the projection follow from the change of its conditions, as in the cell. Events of
another plane are never read.
"""

from __future__ import annotations

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.controllers.lag import observe_lag
from datum_compute.controllers.management.projection.quarantine import Quarantine
from datum_compute.decisions import status_events
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.events import EventRecorder
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import LAG_SECONDS, MetricsRegistry

COMPONENT = "projector"


class ProjectionSignals:
    def __init__(self, env: Environment, metrics: MetricsRegistry | None, hub: Fleet) -> None:
        self.registry = metrics if metrics is not None else MetricsRegistry()
        self._env = env
        self._events = EventRecorder(COMPONENT, env, self.registry)
        self._lag = self.registry.histogram(
            "compute_federation_projection_lag_seconds",
            "From a change of Ready in a cell to the project's projection.",
            buckets=LAG_SECONDS,
        ).labels()
        self.quarantine = Quarantine(self.registry, hub)

    async def record_projection(
        self, project: Cluster, before: Object | None, projection: Object
    ) -> None:
        """Call after the projection is written; ``before`` is the state it replaced."""
        was = conditions.of_status(before.status) if before is not None else ()
        now = conditions.of_status(projection.status)
        observe_lag(self._lag, was, now, self._env.now())
        found = status_events.decide_instance_events(was, now)
        await self._events.record(project.client, projection, *found)
