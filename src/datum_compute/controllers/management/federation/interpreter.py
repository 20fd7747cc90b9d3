"""Whether the hub aggregates the status of deployments.

Karmada aggregates the status of custom kinds only with a ResourceInterpreterCustomization. Without
one every deployment runs and none reports, which looks like a fault of the cells; so a missing
one is logged and shown in a metric.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.log import get_logger
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry

log = get_logger(__name__)

DEPLOYMENT = (compute.WORKLOAD_DEPLOYMENTS.api_version, compute.WORKLOAD_DEPLOYMENTS.kind)


class InterpreterCheck:
    def __init__(self, registry: MetricsRegistry, hub: Fleet) -> None:
        self._last_logged = True  # so that nothing is logged unless it is missing
        registry.gauge(
            "compute_federation_status_interpreter",
            "1 where the hub has a status interpreter for deployments; with 0 no status ever"
            " returns.",
        ).labels().track(
            lambda: float(all(has_status_aggregation(each) for each in hub.clusters()))
        )

    def check(self, hub: Cluster) -> None:
        """Log a change since the last check; does nothing until the cache has synced."""
        if not _customizations(hub).synced:
            return
        aggregates = has_status_aggregation(hub)
        if aggregates == self._last_logged:
            return
        self._last_logged = aggregates
        if aggregates:
            log.info("the hub aggregates the status of deployments")
            return
        fix = "install a ResourceInterpreterCustomization with statusAggregation"
        log.error(
            "the hub does not aggregate the status of deployments, so none is reported",
            kind=compute.WORKLOAD_DEPLOYMENTS.kind,
            fix=fix,
        )


def has_status_aggregation(hub: Cluster) -> bool:
    found = deployment_scripts(_customizations(hub).list())
    return found is not None and found.status_aggregation is not None


def deployment_scripts(customizations: Iterable[Object]) -> karmada.Customizations | None:
    """The scripts for deployments; None where there are none."""
    for each in customizations:
        spec = each.view(karmada.InterpreterCustomization).spec
        if (spec.target.api_version, spec.target.kind) == DEPLOYMENT:
            return spec.customizations
    return None


def _customizations(hub: Cluster) -> Cache:
    return hub.cache(karmada.INTERPRETER_CUSTOMIZATIONS)
