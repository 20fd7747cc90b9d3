"""Which members a template goes to.

A member comes into question when the placement's affinity selects it and it is ready; one
that already has the template stays in question while it is not. A spread constraint by
cluster limits how many are taken: those that have it first, then by name, so that nothing
moves without need. Without a constraint all of them are taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec

from datum_compute.api import conditions, karmada
from datum_compute.api.meta import Object
from datum_compute.api.selectors import LabelSelector
from datum_compute.runtime.patch import Values


@dataclass(frozen=True, slots=True)
class Member:
    """A Cluster, as scheduling sees it."""

    name: str
    labels: dict[str, str]
    ready: bool
    deleting: bool


def member_of(cluster: Object) -> Member:
    return Member(
        cluster.name, cluster.metadata.labels, is_ready(cluster), cluster.metadata.deleting
    )


def is_ready(cluster: Object) -> bool:
    status = cluster.view(karmada.Cluster).status
    return conditions.is_true(status.conditions, karmada.CONDITION_READY)


def decide_clusters(
    placement: karmada.PolicyPlacement, members: Iterable[Member], current: Collection[str]
) -> tuple[str, ...]:
    """The members to use, by name; none when none fits."""
    fitting = [
        member.name
        for member in members
        if _is_selected(placement.cluster_affinity, member)
        and not member.deleting
        and (member.ready or member.name in current)
    ]
    fitting.sort(key=lambda name: (name not in current, name))
    for constraint in placement.spread_constraints:
        if constraint.spread_by_field != "cluster" or constraint.spread_by_label:
            continue
        if len(fitting) < constraint.min_groups:
            return ()
        if constraint.max_groups:
            fitting = fitting[: constraint.max_groups]
    return tuple(sorted(fitting))


def parse_placement(placement: Values) -> karmada.PolicyPlacement:
    return msgspec.convert(placement, karmada.PolicyPlacement)


def placement_text(placement: Values) -> str:
    """What is recorded as applied: equal placements give equal text."""
    return msgspec.json.encode(placement, order="sorted").decode()


def _is_selected(affinity: karmada.ClusterAffinity | None, member: Member) -> bool:
    if affinity is None:
        return True
    if affinity.cluster_names and member.name not in affinity.cluster_names:
        return False
    if member.name in affinity.exclude:
        return False
    return LabelSelector.from_wire(affinity.label_selector).matches(member.labels)
