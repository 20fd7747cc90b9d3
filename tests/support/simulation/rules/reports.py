"""Status of deployments and Workloads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from datum_compute.api.compute import v1alpha as compute
from tests.support.simulation.commits import (
    Change,
    CommittedPlanes,
    Timeline,
    Values,
    annotations_of,
    is_true,
    labels_of,
    status_of,
)

COUNTERS = (
    "replicas",
    "currentReplicas",
    "updatedReplicas",
    "readyReplicas",
    "desiredReplicas",
)

Report = tuple[int, ...]


@dataclass
class ReportRules:
    """Counters match the Instances, a copied status is one that its source had, and no status
    observes a generation that does not exist."""

    _counts: defaultdict[str, Timeline[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(Timeline)
    )
    """By uid of a cell's deployment: how many Instances it has, and how many are Ready."""
    _made: defaultdict[tuple[str, str, str], list[Report]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By place (``cell`` or ``hub``), namespace and name: every report, in order."""
    _copied: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """How far the reports have been copied to a place."""

    def check(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        if change.kind == "instances" and change.is_in_cell:
            self._count(planes, change)
        elif change.kind in ("workloads", "workloaddeployments") and change.new is not None:
            status = status_of(change.new)
            if status and status != status_of(change.old or {}):
                yield from self._see_report(planes, change, change.new, status)

    def _count(self, planes: CommittedPlanes, change: Change) -> None:
        uid = labels_of(change.obj).get(compute.LABEL_WORKLOAD_DEPLOYMENT_UID, "")
        mine = [
            each
            for each in planes.all(change.plane, "instances", change.namespace)
            if labels_of(each).get(compute.LABEL_WORKLOAD_DEPLOYMENT_UID) == uid
        ]
        ready = sum(is_true(each, "Ready") for each in mine)
        self._counts[uid].set(change.time, (len(mine), ready))

    def _see_report(
        self, planes: CommittedPlanes, change: Change, new: Values, status: Values
    ) -> Iterator[str]:
        counted = {name: int(status.get(name, 0)) for name in COUNTERS}
        replicas = counted["replicas"]
        rest = (counted["updatedReplicas"], counted["readyReplicas"])
        if min(counted.values()) < 0 or max(rest) > replicas:
            yield f"{change} counts {counted}"
        observed, generation = status.get("observedGeneration", 0), _generation(new)
        if observed > generation:
            yield f"{change} is at generation {generation}, and was observed at {observed}"
        if change.kind == "workloads":
            return
        if change.is_in_cell:
            yield from self._see_counting(planes, change, new, counted)
        yield from self._see_copying(planes, change, (*counted.values(), observed))

    def _see_counting(
        self, planes: CommittedPlanes, change: Change, new: Values, counted: dict[str, int]
    ) -> Iterator[str]:
        known = self._counts[new["metadata"]["uid"]].within(change.time, planes.grace) or [(0, 0)]
        most, ready = (max(column) for column in zip(*known, strict=True))
        if counted["replicas"] > most or counted["readyReplicas"] > ready:
            yield f"{change} counts {counted}, there were {most}, and {ready} of them Ready"

    def _see_copying(
        self, planes: CommittedPlanes, change: Change, report: Report
    ) -> Iterator[str]:
        namespace, name = change.namespace, change.name
        if change.is_in_cell:
            self._made["cell", namespace, name].append(report)
            return
        source = ("cell", namespace, name)
        if change.plane == "hub":
            self._made["hub", namespace, name].append(report)
        else:
            source = ("hub", planes.hub_namespace(change.plane, namespace), name)
        if not any(report[: COUNTERS.index("desiredReplicas")]) and not report[-1]:
            return  # there is no report yet, or no new one; the desired count may differ
        made, key = self._made[source], (change.plane, namespace, name)
        reached = self._copied.get(key, 0)
        later = [number for number in range(reached, len(made)) if made[number] == report]
        if not later:
            again = " again" if report in made else ""
            yield f"{change} reports {report}{again}, the last ones were {made[-3:]}"
        else:
            self._copied[key] = later[0]


def _generation(obj: Values) -> int:
    """The highest generation that may be observed: the object's, or the project's where noted."""
    stamp = annotations_of(obj).get(compute.ANNOTATION_SOURCE_GENERATION, "")
    return int(stamp) if stamp.isdigit() else int(obj["metadata"]["generation"])
