"""Metrics of this process, cheap to count; :mod:`.exposition` renders them.

A family is a name with label names; a child is one series of it, with label values. A caller
gets its child once and keeps it: counting is then an addition. What can be read at any time
(the depth of a queue, the size of a cache) is not counted but *tracked*: the child is given a
function, which is called at each scrape. A family whose series come and go is *sampled*: one
function gives all of them.

Several parts of a process may contribute to the same series, such as the controllers of the
cells of a local platform; the family defines whether such values add up or the greatest counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

Labels = tuple[str, ...]
"""The label values of a series."""
Combine = Callable[[Iterable[float]], float]
Samples = Callable[[], Mapping[Labels, float]]
"""All series of a family, by label values."""

RECONCILE_SECONDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30),
    *(40, 50, 60),
)
"""The buckets of controller-runtime, so that its dashboards fit."""

QUEUE_SECONDS = (
    *(1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 5, 10, 15, 20, 25, 30, 40, 50, 60),
    *(120, 180, 240, 300, 480, 600, 900, 1200, 1800),
)
"""The same for work queues."""

LAG_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5, 10, 30, 60, 300, 1800)
"""From one plane to another: milliseconds when all is well, minutes after a lost contact."""


class Counter:
    """Only grows, until the process ends."""

    __slots__ = ("_tracked", "_value")

    def __init__(self) -> None:
        self._value = 0.0
        self._tracked: list[Callable[[], float]] = []

    def inc(self, by: float = 1.0) -> None:
        self._value += by

    def track(self, read: Callable[[], float]) -> Callable[[], None]:
        """Count what ``read`` has counted; the result ends it and keeps the last count."""
        self._tracked.append(read)
        return partial(self._untrack, read)

    def value(self) -> float:
        return self._value + sum(read() for read in self._tracked)

    def _untrack(self, read: Callable[[], float]) -> None:
        if read in self._tracked:
            self._tracked.remove(read)
            self._value += read()


class Gauge:
    __slots__ = ("_combine", "_tracked", "_value")

    def __init__(self, combine: Combine = sum) -> None:
        self._value: float | None = None
        self._combine = combine
        self._tracked: list[Callable[[], float]] = []

    def set(self, value: float) -> None:
        self._value = value

    def inc(self, by: float = 1.0) -> None:
        self._value = (self._value or 0.0) + by

    def track(self, read: Callable[[], float]) -> Callable[[], None]:
        """Let ``read`` contribute whenever the value is read; the result ends that."""
        self._tracked.append(read)
        return partial(self._untrack, read)

    def value(self) -> float:
        values = [read() for read in self._tracked]
        if self._value is not None:
            values.append(self._value)
        return self._combine(values) if values else 0.0

    def _untrack(self, read: Callable[[], float]) -> None:
        if read in self._tracked:
            self._tracked.remove(read)


class Histogram:
    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def sum(self) -> float:
        return self._sum

    def plus(self, other: Histogram) -> Histogram:
        """Both together; they have the same bounds."""
        total = Histogram(self._bounds)
        total._counts = [a + b for a, b in zip(self._counts, other._counts, strict=True)]
        total._sum = self._sum + other._sum
        return total

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Upper bounds, the last infinite, and how many observations are not above each."""
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            yield bound, total


Child = TypeVar("Child", bound=Counter | Gauge | Histogram)


class Family(Generic[Child]):
    """All series of one name."""

    def __init__(
        self,
        name: str,
        kind: str,
        help_text: str,
        labels: tuple[str, ...],
        make: Callable[[], Child],
        combine: Combine = sum,
    ) -> None:
        self.name = name
        self.kind = kind
        self.help_text = help_text
        self.label_names = labels
        self.combine = combine
        self._make = make
        self._children: dict[Labels, Child] = {}
        self._samples: list[Samples] = []

    def labels(self, *values: str) -> Child:
        """The series with these values, in the order of the family's label names."""
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has labels {self.label_names}, not {values}")
            child = self._children[values] = self._make()
        return child

    def remove(self, *values: str) -> None:
        """Forget a series whose subject is gone."""
        self._children.pop(values, None)

    def sample(self, read: Samples) -> Callable[[], None]:
        """Get series from ``read`` at each scrape; the result ends that."""
        self._samples.append(read)
        return partial(self._unsample, read)

    def value(self, *values: str) -> float:
        """The value of one series; 0 where there is none."""
        return self.values().get(values, 0.0)

    def values(self) -> dict[Labels, float]:
        """All series of a counter or gauge."""
        found: dict[Labels, list[float]] = {}
        for labels, child in self._children.items():
            if not isinstance(child, Histogram):
                found[labels] = [child.value()]
        for read in self._samples:
            for labels, value in read().items():
                found.setdefault(labels, []).append(value)
        return {labels: self.combine(values) for labels, values in found.items()}

    def histograms(self) -> dict[Labels, Histogram]:
        """All series of a histogram."""
        found: dict[Labels, Histogram] = {}
        for labels, child in self._children.items():
            if isinstance(child, Histogram):
                found[labels] = child
        return found

    def _unsample(self, read: Samples) -> None:
        if read in self._samples:
            self._samples.remove(read)


class MetricsRegistry:
    """Every family of a process. The same name gives the same family, so that independent parts
    may count together. Raises ``ValueError`` for the same name with another type or other
    labels, which is a programming error."""

    def __init__(self) -> None:
        self._families: dict[str, Family[Any]] = {}  # of all three kinds of children

    def counter(self, name: str, help_text: str, *labels: str) -> Family[Counter]:
        if not name.endswith("_total"):
            raise ValueError(f"counter {name}: the name of a counter ends in _total")
        return self._family(Family(name, "counter", help_text, labels, Counter))

    def gauge(
        self, name: str, help_text: str, *labels: str, combine: Combine = sum
    ) -> Family[Gauge]:
        make = partial(Gauge, combine)
        return self._family(Family(name, "gauge", help_text, labels, make, combine))

    def histogram(
        self, name: str, help_text: str, *labels: str, buckets: Sequence[float]
    ) -> Family[Histogram]:
        make = partial(Histogram, tuple(buckets))
        return self._family(Family(name, "histogram", help_text, labels, make))

    def families(self) -> list[Family[Any]]:
        return [self._families[name] for name in sorted(self._families)]

    def _family(self, family: Family[Child]) -> Family[Child]:
        known = self._families.get(family.name)
        if known is None:
            self._families[family.name] = family
            return family
        if (known.kind, known.label_names) != (family.kind, family.label_names):
            raise ValueError(
                f"metric {family.name} is a {known.kind} with labels {known.label_names},"
                f" not a {family.kind} with {family.label_names}"
            )
        return known
