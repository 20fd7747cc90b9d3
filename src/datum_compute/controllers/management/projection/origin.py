"""Where a hub Instance comes from."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object


def deployment_name(hub_instance: Object) -> str:
    """The deployment a hub Instance belongs to: as labelled, else its name without ordinal."""
    labelled = hub_instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME)
    if labelled:
        return labelled
    head, _, ordinal = hub_instance.name.rpartition("-")
    return head if ordinal.isdecimal() else ""
