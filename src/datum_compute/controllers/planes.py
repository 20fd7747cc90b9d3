"""The names of clusters in requests, and namespaces from project to hub and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from datum_compute.api import core, planes
from datum_compute.api.compute import names
from datum_compute.api.compute import v1alpha as compute
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.request import Request

HUB = planes.HUB.name
"""The only cluster of a hub fleet."""

SINGLE = "single"
"""The only cluster of a cell's own fleet."""


class ProjectNamespace(NamedTuple):
    project: str
    namespace: str
    """The namespace in the project plane."""


def labelled_project(labels: Mapping[str, str]) -> ProjectNamespace | None:
    """The project that the upstream labels of a namespace or hub Instance name, or None."""
    cluster = labels.get(compute.LABEL_UPSTREAM_CLUSTER_NAME, "")
    namespace = labels.get(compute.LABEL_UPSTREAM_NAMESPACE, "")
    project = names.decode_project(cluster) if cluster else ""
    return ProjectNamespace(project, namespace) if project and namespace else None


def project_request(labels: Mapping[str, str], name: str) -> list[Request]:
    """The request for an object of this name in the project that the labels name, if any."""
    found = labelled_project(labels)
    return [Request(found.project, found.namespace, name)] if found else []


def hub_namespace_of(project: Cluster, namespace: str) -> str | None:
    """Where a project's namespace lives on the hub; None where the cache has no such namespace."""
    found = project.cache(core.NAMESPACES).get(namespace)
    return names.federation_namespace(found.metadata.uid) if found is not None else None


def project_namespace_of(cell: Cluster, namespace: str) -> ProjectNamespace | None:
    """The project behind a cell's ``ns-<uid>`` namespace; None until its labels arrive. Where the
    namespace has lost them, those of a deployment in it count: the hub gives both the same."""
    found = cell.cache(core.NAMESPACES).get(namespace)
    labelled = labelled_project(found.metadata.labels) if found is not None else None
    if labelled is not None:
        return labelled
    held = cell.cache(compute.WORKLOAD_DEPLOYMENTS).list(namespace)
    named = (labelled_project(each.metadata.labels) for each in held)
    return next((each for each in named if each is not None), None)
