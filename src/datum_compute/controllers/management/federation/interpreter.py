"""Whether the hub aggregates the status of deployments.

Karmada carries status up only for kinds with a ResourceInterpreterCustomization. Without one
every deployment runs and none ever reports, which looks like a fault of the cells; so its
absence is logged and measured.
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
        self._last_logged = True  # nothing is logged while all is well
        registry.gauge(
            "compute_federation_status_interpreter",
            "1 where the hub aggregates the status of deployments.",
        ).labels().track(lambda: float(all(is_described(each) for each in hub.clusters())))

    def check(self, hub: Cluster) -> None:
        """Log a change since the last check; nothing until the cache has synced."""
        if not _customizations(hub).synced:
            return
        described = is_described(hub)
        if described == self._last_logged:
            return
        self._last_logged = described
        if described:
            log.info("the hub aggregates the status of deployments")
            return
        fix = "install a ResourceInterpreterCustomization with statusAggregation"
        log.error(
            "the hub does not aggregate the status of deployments, so none is reported",
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
