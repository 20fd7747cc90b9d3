"""Whether anything brings status from the cells back to the hub.

Karmada carries status up only for kinds whose aggregation somebody has described. Without
that every deployment works and none ever reports, which looks like a fault of the cells; so
it is looked for, and its absence is said.
"""

from __future__ import annotations

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.log import get_logger
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry

log = get_logger(__name__)

DEPLOYMENT = (compute.WORKLOAD_DEPLOYMENTS.api_version, compute.WORKLOAD_DEPLOYMENTS.kind)


class InterpreterWatch:
    def __init__(self, registry: MetricsRegistry, hub: Fleet) -> None:
        self._said = True  # that all is well need not be said
        registry.gauge(
            "compute_federation_status_interpreter",
            "1 where the hub is told how to aggregate the status of deployments.",
        ).labels().track(lambda: float(all(is_described(each) for each in hub.clusters())))

    def check(self, hub: Cluster) -> None:
        """Say what has changed since the last look; nothing while the hub has yet to answer."""
        if not _customizations(hub).synced:
            return
        described = is_described(hub)
        if described == self._said:
            return
        self._said = described
        if described:
            log.info("the status of deployments is aggregated on the hub")
            return
        fix = "install a ResourceInterpreterCustomization with statusAggregation"
        log.error(
            "no status of a deployment will ever return: the hub does not aggregate it",
            kind=compute.WORKLOAD_DEPLOYMENTS.kind,
            fix=fix,
        )


def is_described(hub: Cluster) -> bool:
    for each in _customizations(hub).list():
        spec = each.view(karmada.InterpreterCustomization).spec
        if (spec.target.api_version, spec.target.kind) == DEPLOYMENT:
            return spec.customizations.status_aggregation is not None
    return False


def _customizations(hub: Cluster) -> Cache:
    return hub.cache(karmada.INTERPRETER_CUSTOMIZATIONS)
