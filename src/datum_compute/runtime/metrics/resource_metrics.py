"""Objects of the API as metrics, as kube-state-metrics has them: existence and conditions.

Sampled at scrape time from the caches that controllers keep; no cache is opened for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from datum_compute.api import conditions
from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry

_OBJECT = ("cluster", "namespace", "name")


def register_resource_metrics(
    registry: MetricsRegistry, fleet: Fleet, resource: Resource, prefix: str
) -> None:
    """``<prefix>_info`` and ``<prefix>_status_condition`` of a fleet's objects."""
    info = registry.gauge(f"{prefix}_info", f"1 for each {resource.kind}.", *_OBJECT, "uid")
    condition = registry.gauge(
        f"{prefix}_status_condition",
        "1 where the condition is True, else 0.",
        *(*_OBJECT, "condition", "reason"),
    )

    def infos() -> dict[tuple[str, ...], float]:
        return {(*key, obj.metadata.uid): 1.0 for key, obj in _objects(fleet, resource)}

    def states() -> dict[tuple[str, ...], float]:
        return {
            (*key, each.type, each.reason): float(each.status == conditions.TRUE)
            for key, obj in _objects(fleet, resource)
            for each in conditions.of_status(obj.status)
        }

    info.sample(infos)
    condition.sample(states)


def _objects(fleet: Fleet, resource: Resource) -> Iterator[tuple[tuple[str, str, str], Object]]:
    for cluster in fleet.clusters():
        for cache in cluster.caches():
            if cache.resource == resource and not cache.label_selector:
                for obj in cache.list():
                    yield (cluster.client.cluster, obj.namespace, obj.name), obj
