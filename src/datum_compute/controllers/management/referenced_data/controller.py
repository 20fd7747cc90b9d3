"""The watches of the referenced data controller: deployments, sources and companions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object
from datum_compute.controllers.management.referenced_data.companions import (
    COMPANIONS_BY_DEPLOYMENT,
    RESOURCES,
    SELECTOR,
    users_of,
)
from datum_compute.controllers.management.referenced_data.reconcile import (
    NAMESPACES_BY_PROJECT,
    ReferencedDataReconciler,
    has_old_instances,
    is_managed,
    names_in,
)
from datum_compute.controllers.management.referenced_data.signals import DataSignals
from datum_compute.controllers.planes import HUB, labelled_project
from datum_compute.env import Environment
from datum_compute.runtime.controller import Controller, Read, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.metrics.registry import MetricsRegistry
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.predicates import changed

DEPLOYMENTS_BY_REFERENCE = "reference"
"""Index of deployments by namespace and entry, and by namespace alone."""

_Map = Callable[[str, Object], Iterable[Request]]


def referenced_data_controller(
    projects: Fleet, hub: Fleet, env: Environment, *, metrics: MetricsRegistry | None = None
) -> Controller:
    """Requests name a deployment in its project, or a companion without users by its entry."""

    def naming(project: str, key: str) -> list[Request]:
        found = projects.get(project)
        if found is None:
            return []
        held = found.cache(compute.WORKLOAD_DEPLOYMENTS).by_index(DEPLOYMENTS_BY_REFERENCE, key)
        return [Request(project, each.namespace, each.name) for each in held]

    def from_source(kind: str) -> _Map:
        return lambda project, source: naming(project, f"{source.namespace}/{kind}/{source.name}")

    def from_companion(kind: str) -> _Map:
        def requests(_: str, companion: Object) -> Iterable[Request]:
            namespace = hub.require(HUB).cache(core.NAMESPACES).get(companion.namespace)
            found = labelled_project(namespace.metadata.labels) if namespace else None
            if found is None:
                return []
            entry = f"{kind}/{companion.name}"
            named = naming(found.project, f"{found.namespace}/{entry}")
            users = users_of(companion)
            if not users:
                return [*named, Request(found.project, found.namespace, entry)]
            keys = [each.partition("/") for each in users]
            return [*named, *(Request(found.project, key[0], key[2]) for key in keys)]

        return requests

    def from_hub_namespace(_: str, namespace: Object) -> Iterable[Request]:
        found = labelled_project(namespace.metadata.labels)
        return naming(found.project, found.namespace) if found else []

    signals = DataSignals(metrics, hub)
    return Controller(
        "referenced-data",
        projects,
        ReferencedDataReconciler(projects, hub, env, signals).reconcile,
        watches=[
            Watch.each(
                projects,
                compute.WORKLOAD_DEPLOYMENTS,
                predicate=_concerns_data,
                indexes={DEPLOYMENTS_BY_REFERENCE: _references_of},
            ),
            *(
                Watch(
                    hub,
                    resource.metadata,
                    from_companion(kind),
                    label_selector=SELECTOR,
                    indexes={COMPANIONS_BY_DEPLOYMENT: _users_of},
                    awaited=False,
                )
                for kind, resource in RESOURCES.items()
            ),
            *(
                # Sources are read live: without this watch a change is only noticed later.
                Watch(projects, resource.metadata, from_source(kind), required=False)
                for kind, resource in RESOURCES.items()
            ),
            Watch(
                hub,
                core.NAMESPACES,
                from_hub_namespace,
                indexes={NAMESPACES_BY_PROJECT: _project_of},
                predicate=changed(lambda each: (each.metadata.labels, each.metadata.deleting)),
            ),
        ],
        reads=[Read(projects, core.NAMESPACES), Read(projects, compute.WORKLOADS)],
    )


def _references_of(deployment: Object) -> Iterable[str]:
    entries = [f"{deployment.namespace}/{each.entry}" for each in names_in(deployment)]
    return [*entries, deployment.namespace] if entries else []


def _users_of(companion: Object) -> Iterable[str]:
    return [f"{companion.namespace}/{user}" for user in users_of(companion)]


def _project_of(namespace: Object) -> Iterable[str]:
    found = labelled_project(namespace.metadata.labels)
    return [f"{found.project}/{found.namespace}"] if found else []


def _concerns_data(old: Object | None, new: Object | None) -> bool:
    """Not a change of a deployment that names no data and never did: it costs nothing here."""
    if old is None or new is None:
        return True
    if not (is_managed(old) or is_managed(new) or names_in(new)):
        return False
    return _relevant_state(old) != _relevant_state(new)


def _relevant_state(deployment: Object) -> tuple[object, ...]:
    metadata = deployment.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.deleting,
        metadata.finalizers,
        metadata.annotations,
        has_old_instances(deployment),
    )
