"""What a cell may do on its own, and what it has to clear up once it is in touch again.

A cell that the centre does not answer keeps running what runs, goes on removing what is no
longer wanted, and starts nothing new: a new Instance waits at its Quota gate, because no
answer is not a grant. It replaces nothing either, since a replacement would wait at that
gate while nobody serves in its place.

Removing takes a release: an Instance has a copy on the hub and a claim in its project, and
a finalizer for each. A plane that does not answer holds nothing up, and what was left there
is swept on contact. A plane that answers no is another matter: it could have done what was
asked, so it is asked again, and its finalizer stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.decisions.quota import claim_fits, decide_size, keeps_claim

_TRANSPORT_CODES = (502, 503, 504)


class PlaneReachability(StrEnum):
    """How it stands between a cell and another plane."""

    NOT_USED = "NotUsed"
    """This cell has no such plane, hence nothing of its own there."""
    ANSWERED = "Answered"
    """It did what was asked, or has nothing of ours."""
    REFUSED = "Refused"
    """It answered, and the answer was no."""
    UNREACHABLE = "Away"
    """No answer came: whether anything of ours is there cannot be told."""
    UNKNOWN = "Unknown"
    """Which plane it would be cannot be told."""


def classify_failure(status_code: int | None) -> PlaneReachability:
    """What a failed call says about its plane. None stands for no answer at all: connect or
    TLS error, timeout. 502, 503 and 504 come from something in between."""
    if status_code is None or status_code in _TRANSPORT_CODES:
        return PlaneReachability.UNREACHABLE
    return PlaneReachability.REFUSED


def decide_hold(*, hub: PlaneReachability, project: PlaneReachability) -> str:
    """Why nothing may be replaced; empty when it may be."""
    cut_off = PlaneReachability.UNREACHABLE in (hub, project)
    return compute.REASON_CELL_DISCONNECTED if cut_off else ""


@dataclass(frozen=True, slots=True)
class FinalizerRelease:
    """What becomes of an Instance's two finalizers."""

    released: tuple[str, ...]
    kept: tuple[str, ...]


def decide_release(*, hub: PlaneReachability, project: PlaneReachability) -> FinalizerRelease:
    """``hub`` and ``project`` are what came of giving back the copy and the claim."""
    came_of = {compute.FINALIZER_INSTANCE: hub, compute.FINALIZER_QUOTA_CLAIM: project}
    kept = tuple(name for name, contact in came_of.items() if contact is PlaneReachability.REFUSED)
    return FinalizerRelease(released=tuple(name for name in came_of if name not in kept), kept=kept)


def is_own_copy(labels: Mapping[str, str], *, source_cluster: str) -> bool:
    """Whether a hub copy is this cell's: no cell touches another's."""
    return labels.get(compute.LABEL_SOURCE_CLUSTER) == source_cluster


def is_own_claim(labels: Mapping[str, str], *, source_cluster: str, namespace: str) -> bool:
    """Whether a claim is this cell's, for an Instance in this namespace of it."""
    return (
        labels.get(compute.LABEL_SOURCE_CLUSTER) == source_cluster
        and labels.get(compute.LABEL_INSTANCE_NAMESPACE) == namespace
    )


def is_claim_kept(instance: compute.Instance, wanting: compute.WorkloadDeployment | None) -> bool:
    """Whether the claim of an Instance that goes is left for its replacement. ``wanting`` is
    the deployment of its name, if there is one."""
    if wanting is None or wanting.metadata.deleting:
        return False
    meta = instance.metadata
    return keeps_claim(
        ordinal=names.ordinal_of(meta.labels, meta.name, wanting.metadata.name),
        desired=wanting.spec.scale_settings.min_replicas,
        size=decide_size(instance.spec),
        wanted=decide_size(wanting.spec.template.spec),
    )


def is_claim_awaited(
    claim: quota.ResourceClaim, wanting: compute.WorkloadDeployment | None
) -> bool:
    """Whether the claim of an Instance that is gone waits for its replacement: its ordinal
    is still wanted, at the size it was made for."""
    if wanting is None or wanting.metadata.deleting:
        return False
    instance = names.instance_of_claim(claim.metadata.name)
    ordinal = names.ordinal_of({}, instance, wanting.metadata.name)
    return (
        ordinal is not None
        and ordinal < wanting.spec.scale_settings.min_replicas
        and claim_fits(claim, decide_size(wanting.spec.template.spec))
    )


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is to be swept of an Instance that is gone."""

    copy: bool = False
    claim: bool = False

    def __bool__(self) -> bool:
        return self.copy or self.claim


def decide_sweep(
    *,
    source_cluster: str,
    namespace: str,
    copy: Mapping[str, str] | None,
    claim: quota.ResourceClaim | None,
    deployment: compute.WorkloadDeployment | None,
) -> Leftovers:
    """What to remove of an Instance this cell does not have: its copy on the hub, given by
    its labels, and its claim unless a deployment here still wants it."""
    return Leftovers(
        copy=copy is not None and is_own_copy(copy, source_cluster=source_cluster),
        claim=claim is not None
        and is_own_claim(claim.metadata.labels, source_cluster=source_cluster, namespace=namespace)
        and not is_claim_awaited(claim, deployment),
    )
