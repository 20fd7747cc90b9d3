"""How a controller names the planes it sees, and finds a project from what the hub says."""

from __future__ import annotations

from collections.abc import Mapping

from datum_compute.api import planes
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request

HUB = planes.HUB.name
"""What a fleet of the hub calls its only cluster."""

SINGLE = "single"
"""What a cell's own fleet calls its only cluster."""


class PlaneMissing(Exception):
    """A plane this process was assembled with is not engaged: retried, never taken for
    an answer."""


def hub_of(fleet: Fleet) -> Cluster:
    hub = fleet.get(HUB)
    if hub is None:
        raise PlaneMissing(f"fleet {fleet.name!r} has no cluster {HUB!r}")
    return hub


def project_request(labels: Mapping[str, str], name: str) -> list[Request]:
    """The request for an object of this name in the project that ``labels`` point to:
    those of a hub namespace or of a hub Instance. Nothing where they do not point."""
    cluster = labels.get(compute.LABEL_UPSTREAM_CLUSTER_NAME, "")
    namespace = labels.get(compute.LABEL_UPSTREAM_NAMESPACE, "")
    project = names.decode_project(cluster) if cluster else ""
    if not project or not namespace:
        return []
    return [Request(project, namespace, name)]
