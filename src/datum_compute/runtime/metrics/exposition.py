"""The metrics of one or several registries, in the text format Prometheus reads.

``prometheus_client`` writes the text; its own counters are not used, because ours are an
addition on the hot path, may be read at scrape time, and add up over several registries: the
local platform has one for each manager. It is imported here alone, where metrics are served.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from datum_compute.runtime.metrics.registry import Family, Labels, MetricsRegistry

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def render(*registries: MetricsRegistry) -> str:
    """The metrics of these registries as if all had counted in one. Families and series are
    in the order of their names, so equal numbers are equal text."""
    return generate_latest(_RegistryCollector(registries)).decode()


class _RegistryCollector(Collector):
    def __init__(self, registries: Sequence[MetricsRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        by_name: dict[str, list[Family[Any]]] = {}  # of all three kinds of children
        for registry in self._registries:
            for family in registry.families():
                by_name.setdefault(family.name, []).append(family)
        for name in sorted(by_name):
            yield _metric(by_name[name])


def _metric(families: Sequence[Family[Any]]) -> Metric:
    """One metric of the families of one name."""
    first = families[0]
    if first.kind == "histogram":
        return _histogram(families)
    found: dict[Labels, list[float]] = {}
    for family in families:
        for labels, value in family.values().items():
            found.setdefault(labels, []).append(value)
    kind = CounterMetricFamily if first.kind == "counter" else GaugeMetricFamily
    metric = kind(first.name, first.help_text, labels=first.label_names)
    for labels in sorted(found):
        metric.add_metric(labels, first.combine(found[labels]))
    return metric


def _histogram(families: Sequence[Family[Any]]) -> Metric:
    first = families[0]
    metric = HistogramMetricFamily(first.name, first.help_text, labels=first.label_names)
    total = first.histograms()
    for family in families[1:]:
        for labels, child in family.histograms().items():
            known = total.get(labels)
            total[labels] = child if known is None else known.plus(child)
    for labels in sorted(total):
        buckets = [(_bound(bound), count) for bound, count in total[labels].cumulative()]
        metric.add_metric(labels, buckets, total[labels].sum)
    return metric


def _bound(bound: float) -> str:
    """As Go writes it, so that ``le`` is what the dashboards of controller-runtime expect."""
    if bound == float("inf"):
        return "+Inf"
    return str(int(bound)) if bound == int(bound) else repr(bound)
