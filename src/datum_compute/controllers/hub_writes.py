"""The count of writes to the hub, which the federator and the cells share."""

from __future__ import annotations

from datum_compute.api.scheme import Resource
from datum_compute.runtime.metrics.registry import Counter, MetricsRegistry


def hub_write_counter(registry: MetricsRegistry, resource: Resource) -> Counter:
    return registry.counter(
        "compute_federation_hub_writes_total",
        "Writes to the hub: WorkloadDeployments by the federator, Instances by cells.",
        "kind",
    ).labels(resource.kind)
