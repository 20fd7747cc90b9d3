"""What must be gone before an object is released."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from datum_compute.api import karmada
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from tests.support.simulation.commits import (
    Change,
    CommittedPlanes,
    Timeline,
    Values,
    annotations_of,
    is_deleting,
    is_true,
    labels_of,
    status_of,
)

UNDER_WAY = 50_000
"""Milliseconds: how old a live read may be when the write decided on it arrives."""
DRAIN_MILLISECONDS = 150_000
"""Milliseconds that a cell has at least to stop its Instances: ten minutes by a clock that is
five ahead and too fast, and the time of the write."""
ACKNOWLEDGE_MILLISECONDS = 60_000
"""Milliseconds that a cell has at least to acknowledge that it is to stop them."""


@dataclass
class DeletionRules:
    """No object is released before its dependents are gone."""

    ordered: set[str]
    _answers: defaultdict[str, Timeline[bool]] = field(
        default_factory=lambda: defaultdict(Timeline)
    )
    """By cell: whether it is ready, on the hub."""
    _drained: set[str] = field(default_factory=set)
    """Hub copies whose cell has reported that all Instances are stopped. One that a repeated
    request creates afterwards holds nothing up: the cell deletes it."""

    def check(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        if change.kind == "clusters" and change.new is not None:
            self._answers[change.name].set(change.time, is_true(change.new, "Ready"))
        if change.kind == "workloaddeployments" and change.plane == "hub" and change.new:
            _, reported, acknowledged = _drain_of(change.new)
            if acknowledged and not reported:
                self._drained.add(change.obj["metadata"]["uid"])
        if planes.is_ending(change.plane, change.namespace):
            return
        if change.kind == "propagationpolicies" and change.is_end:
            yield from self._see_policy(planes, change)
        if change.kind == "workloaddeployments" and change.plane == "hub" and change.is_end:
            yield from self._see_copy(planes, change)
        if change.new is not None:
            return
        left: Iterator[str] = iter(())
        if change.kind == "workloads":
            left = self._of_workload(planes, change)
        elif change.kind == "workloaddeployments" and change.is_in_cell:
            left = self._in_cell(planes, change)
        elif change.kind == "workloaddeployments" and change.plane != "hub":
            left = self._on_hub(planes, change)
        if found := sorted(left):
            yield f"{change} was let go while there were {found}"

    def _of_workload(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        uid = change.obj["metadata"]["uid"]
        for each in planes.all(change.plane, "workloaddeployments", change.namespace):
            key = (change.plane, "workloaddeployments", change.namespace, each["metadata"]["name"])
            if each["spec"]["workloadRef"].get("uid") == uid and planes.is_old(
                *key, than=UNDER_WAY
            ):
                yield each["metadata"]["name"]

    def _in_cell(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        uid = change.obj["metadata"]["uid"]
        for each in planes.all(change.plane, "instances", change.namespace):
            key = (change.plane, "instances", change.namespace, each["metadata"]["name"])
            label = labels_of(each).get(compute.LABEL_WORKLOAD_DEPLOYMENT_UID)
            if label == uid and planes.is_old(*key, than=UNDER_WAY):
                yield each["metadata"]["name"]

    def _on_hub(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        namespace = planes.hub_namespace(change.plane, change.namespace)
        binding = f"{change.name}-workloaddeployment"
        for kind, name in (("workloaddeployments", change.name), ("resourcebindings", binding)):
            if planes.is_old("hub", kind, namespace, name, than=UNDER_WAY):
                yield kind
        for work in planes.all("hub", "works"):
            notes, meta = annotations_of(work), work["metadata"]
            of = (
                notes.get(karmada.ANNOTATION_BINDING_NAMESPACE),
                notes.get(karmada.ANNOTATION_BINDING_NAME),
            )
            if of == (namespace, binding) and planes.is_old(
                "hub", "works", meta["namespace"], meta["name"], than=UNDER_WAY
            ):
                yield f"Work {meta['name']}"

    def _see_copy(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        """A hub copy is deleted with its deployment, and only after its cell has stopped all
        Instances, is unreachable, or has had its time."""
        project, namespace = planes.project_of(change.plane, change.namespace)
        key = (project, change.kind, namespace, change.name)
        source = planes.find(*key)
        if source is None or change.obj["metadata"]["uid"] in self.ordered | self._drained:
            return
        if not is_deleting(source):
            if planes.is_old(*key, than=UNDER_WAY):
                yield f"{change} was deleted while its project has it"
            return
        if planes.now - _deleted_at(source) > DRAIN_MILLISECONDS or not self._is_bound(
            planes, change
        ):
            return
        assert change.old is not None
        asked, left, acknowledged = _drain_of(change.old)
        if not acknowledged and planes.now - _deleted_at(source) > ACKNOWLEDGE_MILLISECONDS:
            return
        if left or asked:
            yield f"{change} was deleted while {asked} were desired, and {left} reported"

    def _is_bound(self, planes: CommittedPlanes, change: Change) -> bool:
        """Whether a cell has it, and has been reachable for longer than the grace."""
        name = f"{change.name}-workloaddeployment"
        binding = planes.find("hub", "resourcebindings", change.namespace, name)
        place = ("hub", "resourcebindings", change.namespace, name)
        if binding is None or not planes.is_old(*place, than=UNDER_WAY):
            return False
        cells = [each["name"] for each in binding["spec"].get("clusters") or []]
        known = [self._answers[cell].within(planes.now, planes.grace) for cell in cells]
        return bool(cells) and all(answers and all(answers) for answers in known)

    def _see_policy(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        if change.obj["metadata"]["uid"] in self.ordered:
            return
        for each in planes.all("hub", "workloaddeployments", change.namespace):
            city = labels_of(each).get(compute.LABEL_TOPOLOGY_CITY_CODE, "")
            key = ("hub", "workloaddeployments", change.namespace, each["metadata"]["name"])
            if names.policy_name(city) == change.name and planes.is_old(*key, than=UNDER_WAY):
                yield f"{change} was deleted while it routes {each['metadata']['name']}"


def _drain_of(copy: Values) -> tuple[int, int, bool]:
    """How many are asked of the cell, how many it reports, and whether it knows that none is
    desired."""
    reported = status_of(copy)
    asked = copy["spec"]["scaleSettings"].get("minReplicas") or 0
    return asked, reported.get("replicas", 0), not asked and reported.get("desiredReplicas") == 0


def _deleted_at(obj: Values) -> int:
    """When it was marked for deletion."""
    return int(datetime.fromisoformat(obj["metadata"]["deletionTimestamp"]).timestamp() * 1000)
