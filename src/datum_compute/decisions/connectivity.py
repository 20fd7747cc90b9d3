"""What a disconnected cell may do, and what it cleans up once it is connected again.

A cell that cannot reach the hub or a project keeps its Instances running, goes on removing those
no longer wanted, and starts none: a new Instance keeps its gate ``Quota`` until the project grants
its claim. It replaces none either, since the replacement would wait at that gate while its
predecessor no longer serves.

An Instance has a copy on the hub and a claim in its project, and a finalizer for each. An
unreachable plane does not block deletion; what was left there is swept once it is reachable. A
plane that refuses does: the call is retried, and its finalizer stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from datum_compute.api.compute import instance_names, names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.decisions.quota import claim_fits, decide_size, keeps_claim

_TRANSPORT_CODES = (502, 503, 504)


class PlaneReachability(StrEnum):
    """The result of a cell's last call to another plane."""

    NOT_USED = "NotUsed"
    """This cell has no such plane, so it has no objects there."""
    ANSWERED = "Answered"
    """The call succeeded, or the object did not exist."""
    REFUSED = "Refused"
    """It answered with an error."""
    UNREACHABLE = "Unreachable"
    """It did not answer: whether the object exists is unknown."""
    UNKNOWN = "Unknown"
    """The project of the namespace is not known."""


def classify_failure(status_code: int | None) -> PlaneReachability:
    """The reachability of a plane after a failed call. ``status_code`` is None when no
    answer came: connect or TLS error, timeout. 502, 503 and 504 come from a proxy in between."""
    if status_code is None or status_code in _TRANSPORT_CODES:
        return PlaneReachability.UNREACHABLE
    return PlaneReachability.REFUSED


def decide_hold(*, hub: PlaneReachability, project: PlaneReachability) -> str:
    """The reason to hold replacements; empty when nothing holds them."""
    disconnected = PlaneReachability.UNREACHABLE in (hub, project)
    return compute.REASON_CELL_DISCONNECTED if disconnected else ""


@dataclass(frozen=True, slots=True)
class FinalizerRelease:
    """Which of an Instance's two finalizers are removed."""

    released: tuple[str, ...]
    kept: tuple[str, ...]


def decide_release(*, hub: PlaneReachability, project: PlaneReachability) -> FinalizerRelease:
    """``hub`` and ``project`` are the results of deleting the copy and the claim."""
    results = {compute.FINALIZER_INSTANCE: hub, compute.FINALIZER_QUOTA_CLAIM: project}
    kept = tuple(name for name, result in results.items() if result is PlaneReachability.REFUSED)
    return FinalizerRelease(released=tuple(name for name in results if name not in kept), kept=kept)


def is_own_copy(labels: Mapping[str, str], *, source_cluster: str) -> bool:
    """Whether a hub copy carries this cell's name; no cell touches another's."""
    return labels.get(compute.LABEL_SOURCE_CLUSTER) == source_cluster


def is_own_claim(labels: Mapping[str, str], *, source_cluster: str, namespace: str) -> bool:
    """Whether a claim of the name of an Instance carries this cell's name and this namespace of the
    cell. A label that was removed names no other owner."""
    return (
        labels.get(compute.LABEL_SOURCE_CLUSTER, source_cluster) == source_cluster
        and labels.get(compute.LABEL_INSTANCE_NAMESPACE, namespace) == namespace
    )


def is_claim_kept(
    instance: compute.Instance, deployment: compute.WorkloadDeployment | None
) -> bool:
    """Whether the claim of a deleted Instance is left for its replacement. ``deployment`` is
    the one its label names, if it exists."""
    if deployment is None or deployment.metadata.deleting:
        return False
    meta = instance.metadata
    return keeps_claim(
        ordinal=instance_names.ordinal_of(meta.labels, meta.name, deployment.metadata.name),
        desired=deployment.spec.scale_settings.min_replicas,
        size=decide_size(instance.spec),
        wanted=decide_size(deployment.spec.template.spec),
    )


def is_claim_awaited(
    claim: quota.ResourceClaim, deployment: compute.WorkloadDeployment | None
) -> bool:
    """Whether the claim of an Instance that no longer exists waits for its replacement: its
    ordinal is still wanted, at the size it was created for."""
    if deployment is None or deployment.metadata.deleting:
        return False
    instance = names.instance_of_claim(claim.metadata.name)
    ordinal = instance_names.ordinal_of({}, instance, deployment.metadata.name)
    return (
        ordinal is not None
        and ordinal < deployment.spec.scale_settings.min_replicas
        and claim_fits(claim, decide_size(deployment.spec.template.spec))
    )


@dataclass(frozen=True, slots=True)
class Orphans:
    """What a sweep deletes of an Instance that no longer exists."""

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
) -> Orphans:
    """What to remove of an Instance this cell does not have: its copy on the hub, given by
    its labels, and its claim unless a deployment here still wants it."""
    return Orphans(
        copy=copy is not None and is_own_copy(copy, source_cluster=source_cluster),
        claim=claim is not None
        and is_own_claim(claim.metadata.labels, source_cluster=source_cluster, namespace=namespace)
        and not is_claim_awaited(claim, deployment),
    )
