"""The name of the deployment that a hub Instance belongs to."""

from __future__ import annotations

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object


def deployment_name(hub_instance: Object) -> str:
    """From its label, else from its own name without the ordinal; empty when it has neither."""
    labelled = hub_instance.metadata.labels.get(compute.LABEL_WORKLOAD_DEPLOYMENT_NAME)
    if labelled:
        return labelled
    head, _, ordinal = hub_instance.name.rpartition("-")
    return head if ordinal.isdecimal() else ""
