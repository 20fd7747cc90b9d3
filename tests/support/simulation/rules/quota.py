"""Grants, and the claims that hold them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from tests.support.simulation.commits import (
    Change,
    CommittedPlanes,
    Timeline,
    Values,
    is_deleting,
    is_true,
    labels_of,
    status_of,
)


@dataclass
class QuotaRules:
    """Grants do not exceed the limit; no Instance starts without a grant; and a claim is kept
    while its ordinal is wanted."""

    ordered: set[str]
    _limits: defaultdict[tuple[str, str], Timeline[int]] = field(
        default_factory=lambda: defaultdict(Timeline)
    )
    _wanted: defaultdict[tuple[str, str, str], Timeline[int]] = field(
        default_factory=lambda: defaultdict(Timeline)
    )
    """By cell, namespace and name of a deployment: how many are wanted."""
    _granted_until: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By project, namespace and name of a granted claim: when it was deleted."""

    def check(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        if change.kind == "allowancebuckets" and change.new is not None:
            kind = change.new["spec"]["resourceType"]
            limit = status_of(change.new).get("limit", 0)
            self._limits[change.plane, kind].set(change.time, limit)
        elif change.kind == "workloaddeployments" and change.is_in_cell:
            desired = 0
            if change.new is not None and not is_deleting(change.new):
                desired = int(change.new["spec"]["scaleSettings"].get("minReplicas") or 0)
            self._wanted[change.plane, change.namespace, change.name].set(change.time, desired)
        elif change.kind == "resourceclaims":
            yield from self._see_claim(planes, change)
        elif change.kind == "instances" and change.is_in_cell and change.new is not None:
            yield from self._see_instance(planes, change, change.new)

    def _see_claim(self, planes: CommittedPlanes, change: Change) -> Iterator[str]:
        old, new = _granted(change.old), _granted(change.new)
        for kind in sorted(new.keys() - old.keys()):
            limits = self._limits[change.plane, kind].within(change.time, planes.grace)
            held = sum(
                _granted(each).get(kind, 0) for each in planes.all(change.plane, change.kind)
            )
            if limits and held > max(limits):
                yield f"{held} {kind} are granted on {change.plane}, the limit is {max(limits)}"
        if change.old is not None and is_true(change.old, "Granted"):
            self._granted_until[change.plane, change.namespace, change.name] = change.time
            if change.is_end:
                yield from self._see_release(planes, change, change.old)

    def _see_release(self, planes: CommittedPlanes, change: Change, claim: Values) -> Iterator[str]:
        labels = labels_of(claim)
        cell = f"cell/{labels.get(compute.LABEL_SOURCE_CLUSTER, '')}"
        namespace = labels.get(compute.LABEL_INSTANCE_NAMESPACE, "")
        deployment, _, ordinal = names.instance_of_claim(change.name).rpartition("-")
        if claim["metadata"]["uid"] in self.ordered or not ordinal.isdigit():
            return
        if planes.is_ending(change.plane, change.namespace) or planes.is_ending(cell, namespace):
            return
        wanted = self._wanted[cell, namespace, deployment].within(change.time, planes.grace)
        if wanted and all(int(ordinal) < each for each in wanted):
            yield f"{change} was released while {wanted} Instances were wanted"

    def _see_instance(self, planes: CommittedPlanes, change: Change, new: Values) -> Iterator[str]:
        if change.old is None:
            return
        if is_true(change.old, "QuotaGranted") and not is_true(new, "QuotaGranted"):
            yield f"{change} lost its grant"
        if compute.GATE_QUOTA in _gates(change.old) - _gates(new):
            project, namespace = planes.project_of(change.plane, change.namespace)
            key = (project, namespace, names.claim_name(change.name))
            claim = planes.find(project, "resourceclaims", *key[1:])
            until = self._granted_until.get(key, -planes.grace - 1)
            if not (claim and is_true(claim, "Granted")) and until < change.time - planes.grace:
                yield f"{change} was let through the Quota gate without a claim"


def _gates(obj: Values | None) -> set[str]:
    controller = (obj["spec"].get("controller") or {}) if obj else {}
    return {gate["name"] for gate in controller.get("schedulingGates") or []}


def _granted(claim: Values | None) -> dict[str, int]:
    allocations = status_of(claim).get("allocations") or [] if claim else []
    return {
        each["resourceType"]: each.get("allocatedAmount", 0)
        for each in allocations
        if each["status"] == "Granted"
    }
