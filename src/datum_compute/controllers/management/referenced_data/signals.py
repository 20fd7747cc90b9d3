"""Metrics of the delivery of ConfigMaps and Secrets. Events follow from the condition
``ReferencedDataReady``, which the cell reports and the federator repeats in the project."""

from __future__ import annotations

from functools import partial

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.references import ERRORS, KINDS
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry


class DataSignals:
    def __init__(self, metrics: MetricsRegistry | None, hub: Fleet) -> None:
        registry = metrics if metrics is not None else MetricsRegistry()
        self._writes = registry.counter(
            "compute_referenced_data_writes_total",
            "Writes to copies of ConfigMaps and Secrets on the hub: create, update, delete.",
            "kind",
            "action",
        )
        self._errors = registry.counter(
            "compute_referenced_data_errors_total",
            f"Times that data of a deployment could not be delivered: {', '.join(ERRORS)}.",
            "reason",
        )
        for reason in ERRORS:
            self._errors.labels(reason)
        gauge = registry.gauge(
            "compute_referenced_data_companions",
            "Copies of ConfigMaps and Secrets on the hub.",
            "kind",
        )
        for kind in KINDS:
            gauge.labels(kind).track(partial(_companions, hub, kind))

    def record_write(self, kind: str, action: str) -> None:
        self._writes.labels(kind, action).inc()

    def record_error(self, reason: str) -> None:
        self._errors.labels(reason).inc()


def _companions(hub: Fleet, kind: str) -> float:
    return sum(
        len(cache)
        for cluster in hub.clusters()
        for cache in cluster.caches()
        if cache.resource.kind == kind and compute.LABEL_REFERENCED_DATA in cache.label_selector
    )
