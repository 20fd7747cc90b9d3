"""Copies of Instances on the hub and in projects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from datum_compute.api.compute import v1alpha as compute
from tests.support.simulation.commits import (
    Change,
    CommittedPlanes,
    Values,
    annotations_of,
    is_deleting,
    labels_of,
)


@dataclass
class CopyRules:
    """A copy is of an Instance that existed, has an owner on its plane, and is deleted only
    after its source."""

    ordered: set[str]
    _cell_of: dict[str, str] = field(default_factory=dict)
    """By uid of an Instance: the cell that had it."""
    _deployments: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By plane: uids of all deployments it ever had."""

    def check(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        if change.kind == "workloaddeployments":
            self._deployments[change.plane].add(change.obj["metadata"]["uid"])
        elif change.kind == "instances" and change.is_in_cell:
            self._cell_of[change.obj["metadata"]["uid"]] = change.plane.partition("/")[2]
        elif change.kind == "instances":
            if change.new is not None:
                yield from self._see_copy(change, change.new)
            if change.old is not None and change.is_end:
                yield from self._see_end(planes, change, change.old)

    def _see_copy(self, change: Change, new: Values) -> Iterator[str]:
        owners = new["metadata"].get("ownerReferences") or []
        if [each["uid"] in self._deployments[change.plane] for each in owners] != [True]:
            yield f"{change} is owned by {[each['uid'] for each in owners]}"
        shown = annotations_of(new).get(compute.ANNOTATION_INSTANCE_UID, "")
        if shown not in self._cell_of:
            yield f"{change} shows {shown!r}, which no cell ever had"
        elif change.plane == "hub":
            cell = labels_of(new).get(compute.LABEL_SOURCE_CLUSTER)
            if cell != self._cell_of[shown]:
                yield f"{change} of {self._cell_of[shown]} names {cell} as its source"
        if change.old is not None:
            before = annotations_of(change.old).get(compute.ANNOTATION_INSTANCE_UID)
            if before != shown:
                yield f"{change} showed {before}, and with the same age shows {shown}"

    def _see_end(self, planes: CommittedPlanes, change: Change, old: Values) -> Iterator[str]:
        if old["metadata"]["uid"] in self.ordered or not self._has_owner(planes, change, old):
            return
        if planes.is_ending(change.plane, change.namespace):
            return
        shown = annotations_of(old).get(compute.ANNOTATION_INSTANCE_UID, "")
        where, namespace = f"cell/{self._cell_of.get(shown)}", change.namespace
        if change.plane != "hub":
            where, namespace = "hub", planes.hub_namespace(change.plane, change.namespace)
        source = planes.find(where, change.kind, namespace, change.name)
        if source is None or is_deleting(source):
            return
        uid = annotations_of(source).get(compute.ANNOTATION_INSTANCE_UID, source["metadata"]["uid"])
        if uid == shown and planes.is_old(where, change.kind, namespace, change.name):
            yield f"{change} was deleted while what it shows is on {where}"

    def _has_owner(self, planes: CommittedPlanes, change: Change, old: Values) -> bool:
        """Whether its owner exists: without one it is garbage-collected."""
        for reference in old["metadata"].get("ownerReferences") or []:
            owner = planes.find(
                change.plane, "workloaddeployments", change.namespace, reference["name"]
            )
            if owner is not None and owner["metadata"]["uid"] == reference["uid"]:
                return True
        return False
