"""Whose an Instance is: the project and namespace behind a cell's ``ns-<uid>`` namespace."""

from __future__ import annotations

from dataclasses import dataclass

from datum_compute.api import core
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.runtime.cluster import Cluster


@dataclass(frozen=True, slots=True)
class ProjectNamespace:
    project: str
    namespace: str
    """In the project plane."""


def project_namespace_of(cell: Cluster, namespace: str) -> ProjectNamespace | None:
    """None while the namespace or its labels have not arrived: not yet, rather than never."""
    found = cell.cache(core.NAMESPACES).get(namespace)
    if found is None:
        return None
    cluster = found.metadata.labels.get(compute.LABEL_UPSTREAM_CLUSTER_NAME, "")
    upstream = found.metadata.labels.get(compute.LABEL_UPSTREAM_NAMESPACE, "")
    project = names.decode_project(cluster) if cluster else ""
    return ProjectNamespace(project, upstream) if project and upstream else None
