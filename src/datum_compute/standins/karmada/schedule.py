"""Which members a template goes to.

A member fits when the placement's affinity selects it, it is ready, it serves the template's
kind, and the placement tolerates its taints; for one that already has the template only the
affinity counts. A spread constraint by cluster limits how many are taken: those that have the
template first, then by name, so that nothing moves without need. Without a constraint all of
them are taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec

from datum_compute.api import conditions, karmada
from datum_compute.api.meta import Object
from datum_compute.api.selectors import LabelSelector
from datum_compute.runtime.cache.quarantine import readable
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.writes.patch import Values

VersionedKind = tuple[str, str]
"""Group with version, and kind."""

REPELLING_EFFECTS = ("NoSchedule", "NoExecute")
"""Effects of taints that keep new Works off a member."""


@dataclass(frozen=True, slots=True)
class Member:
    """A Cluster, as scheduling sees it."""

    name: str
    labels: dict[str, str]
    ready: bool
    deleting: bool
    taints: tuple[karmada.Taint, ...] = ()
    enablements: tuple[karmada.APIEnablement, ...] = ()

    def serves(self, kind: VersionedKind) -> bool:
        """Called only for members that fit otherwise."""
        return any(
            enabled.group_version == kind[0] and resource.kind == kind[1]
            for enabled in self.enablements
            for resource in enabled.resources
        )


def members_of(hub: Cluster, current: Collection[str]) -> list[Member]:
    """Those that can be read. Raises ``Unreadable`` for one in ``current``: without it, what runs
    there would be moved away."""
    clusters = hub.cache(karmada.CLUSTERS).list()
    known = {cluster.name for cluster in readable(clusters, karmada.Cluster)}
    return [member_of(one) for one in clusters if one.name in known or one.name in current]


def member_of(cluster: Object) -> Member:
    view = cluster.view(karmada.Cluster)
    return Member(
        cluster.name,
        cluster.metadata.labels,
        is_ready(cluster),
        cluster.metadata.deleting,
        view.spec.taints,
        view.status.api_enablements,
    )


def is_ready(cluster: Object) -> bool:
    status = cluster.view(karmada.Cluster).status
    return conditions.is_true(status.conditions, karmada.CONDITION_READY)


def decide_clusters(
    placement: karmada.PolicyPlacement,
    kind: VersionedKind,
    members: Iterable[Member],
    current: Collection[str],
) -> tuple[str, ...]:
    """The members to use for a template of this kind, by name; none when none fits."""
    fitting = [
        member.name
        for member in members
        if _is_selected(placement.cluster_affinity, member)
        and not member.deleting
        and (member.name in current or _is_open(placement, kind, member))
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
    """The applied placement as it is recorded: equal placements give equal text."""
    return msgspec.json.encode(placement, order="sorted").decode()


def _is_open(placement: karmada.PolicyPlacement, kind: VersionedKind, member: Member) -> bool:
    """Whether a template that the member does not have yet may go there."""
    return (
        member.ready
        and member.serves(kind)
        and all(
            any(_tolerates(toleration, taint) for toleration in placement.cluster_tolerations)
            for taint in member.taints
            if taint.effect in REPELLING_EFFECTS
        )
    )


def _tolerates(toleration: karmada.Toleration, taint: karmada.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _is_selected(affinity: karmada.ClusterAffinity | None, member: Member) -> bool:
    if affinity is None:
        return True
    if affinity.cluster_names and member.name not in affinity.cluster_names:
        return False
    if member.name in affinity.exclude:
        return False
    return LabelSelector.from_wire(affinity.label_selector).matches(member.labels)
