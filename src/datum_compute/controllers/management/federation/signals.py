"""Events and metrics of the federator.

Events on the project's WorkloadDeployment follow from the change of its status: the ones the cell
records on its own deployment, and those of ``Scheduled`` and ``CellReachable``.
"""

from __future__ import annotations

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.hub_writes import hub_write_counter
from datum_compute.decisions import status_events
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.events import EventRecorder
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry

COMPONENT = "federator"


class FederationSignals:
    def __init__(self, env: Environment, metrics: MetricsRegistry | None, hub: Fleet) -> None:
        self.registry = metrics if metrics is not None else MetricsRegistry()
        self._events = EventRecorder(COMPONENT, env, self.registry)
        self._hub_writes = hub_write_counter(self.registry, compute.WORKLOAD_DEPLOYMENTS)
        self.registry.gauge(
            "compute_federation_policies", "Propagation policies on the hub."
        ).labels().track(lambda: _policies(hub))

    def record_hub_write(self, before: Object | None, after: Object | None) -> None:
        """Call after each write to a hub copy that may have been due: None is no copy."""
        versions = [each and each.metadata.resource_version for each in (before, after)]
        if versions[0] != versions[1]:
            self._hub_writes.inc()

    async def record_events(self, project: Cluster, deployment: Object, written: Object) -> None:
        """Call after the status is stored; ``deployment`` is the state it replaced."""
        found = status_events.decide_deployment_events(
            deployment.view(compute.WorkloadDeployment).status,
            written.view(compute.WorkloadDeployment).status,
        )
        await self._events.record(project.client, written, *found)


def _policies(hub: Fleet) -> float:
    return sum(
        len(cache)
        for cluster in hub.clusters()
        for cache in cluster.caches()
        if cache.resource == karmada.PROPAGATION_POLICIES
    )
