"""Namespaces: every hub namespace goes to every member, with its labels, without a policy.

So a cell learns the project of ``ns-<uid>``. Reserved namespaces and ``default`` are not
propagated, nor is one with the opt-out label. A namespace owns its Works, so deleting it on the
hub deletes it in the members.
"""

from __future__ import annotations

from collections.abc import Iterable

from datum_compute.api import karmada
from datum_compute.api.core import NAMESPACES
from datum_compute.api.meta import Object
from datum_compute.env import Environment
from datum_compute.runtime.cluster import Cluster
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.object_reconcile import for_object
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.predicates import content_changed
from datum_compute.runtime.writes import patch
from datum_compute.standins.karmada import names, works


def namespace_controller(hub: Fleet, env: Environment) -> Controller:
    reconciler = _Namespaces(hub, env)
    return Controller(
        "propagation-namespace",
        hub,
        for_object(hub, NAMESPACES, reconciler.reconcile),
        watches=[
            Watch(hub, NAMESPACES, reconciler.namespaces_of, predicate=content_changed),
            Watch(hub, karmada.CLUSTERS, reconciler.all_namespaces, predicate=content_changed),
            Watch(hub, karmada.WORKS, namespace_of_work, predicate=content_changed),
        ],
    )


def is_synchronized(namespace: Object) -> bool:
    return (
        namespace.name != "default"
        and not names.is_reserved(namespace.name)
        and namespace.metadata.labels.get(karmada.LABEL_SKIP_NAMESPACE) != "true"
    )


def namespace_of_work(cluster: str, work: Object) -> Iterable[Request]:
    owner = work.metadata.controller()
    if owner is not None and owner.kind == NAMESPACES.kind:
        yield Request(cluster, "", owner.name)


class _Namespaces:
    def __init__(self, hub: Fleet, env: Environment) -> None:
        self._hub = hub
        self._env = env

    def namespaces_of(self, cluster: str, namespace: Object) -> Iterable[Request]:
        """The namespace itself; for an execution namespace, all namespaces."""
        if names.cluster_of(namespace.name):
            yield from self.all_namespaces(cluster, namespace)
        else:
            yield Request(cluster, "", namespace.name)

    def all_namespaces(self, cluster: str, _: Object) -> Iterable[Request]:
        hub = self._hub.get(cluster)
        for namespace in hub.cache(NAMESPACES).list() if hub else ():
            if is_synchronized(namespace):
                yield Request(cluster, "", namespace.name)

    async def reconcile(self, hub: Cluster, namespace: Object) -> None:
        """The Works of a deleted namespace are garbage collected."""
        work = names.work_name(NAMESPACES.kind, namespace.name, "")
        for cluster in hub.cache(karmada.CLUSTERS).list():
            home = hub.cache(NAMESPACES).get(karmada.execution_namespace(cluster.name))
            if home is None or home.metadata.deleting or cluster.metadata.deleting:
                continue
            current = hub.cache(karmada.WORKS).get(work, home.name)
            if is_synchronized(namespace):
                await works.ensure_work(hub.client, self._env, namespace, cluster.name, current)
            elif current is not None and not current.metadata.deleting:
                await patch.delete_if_present(hub.client, karmada.WORKS, current)
