"""The order in which waiting Instances claim a budget that has room again.

Each Instance is reconciled alone, and all see the same room; so each considers the others
that wait and takes only what those before it leave. Lowest ordinal first, so that ordered
deployments progress; among equals the one that has waited longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from datum_compute.api.compute import instance_names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.decisions.quota import available_in, decide_size

_LATEST = datetime.max.replace(tzinfo=UTC)
_NO_ORDINAL = 10**9
"""Higher than any ordinal."""


def may_claim_next(
    instance: compute.Instance,
    waiting: Sequence[compute.Instance],
    buckets: Sequence[quota.AllowanceBucket],
    *,
    project: str,
) -> bool:
    """Whether there is room for this one after those before it. One that does not fit is
    skipped: it must not block those that do. A missing bucket has no room."""
    left = available_in(buckets, project)
    for each in sorted(waiting, key=_rank):
        if each.metadata.deleting:
            continue
        requests = decide_size(each.spec).requests()
        fits = all(left.get(kind, 0) >= amount for kind, amount in requests.items())
        if each.metadata.uid == instance.metadata.uid:
            return fits
        if fits:
            left = {kind: room - requests.get(kind, 0) for kind, room in left.items()}
    # The cache does not have its own denial yet: the next reconcile will.
    return False


def _rank(instance: compute.Instance) -> tuple[int, datetime, str, str]:
    meta = instance.metadata
    deployment = meta.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME, "")
    ordinal = instance_names.ordinal_of(meta.labels, meta.name, deployment)
    created = meta.creation_timestamp or _LATEST
    return _NO_ORDINAL if ordinal is None else ordinal, created, meta.namespace, meta.name
