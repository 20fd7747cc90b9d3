"""Keeps a ConfigMap ``greeting`` in every Namespace that is labelled ``greet``."""

from __future__ import annotations

from datum_compute.api.core import CONFIG_MAPS, NAMESPACES, ConfigMap
from datum_compute.api.meta import Object
from datum_compute.client.protocol import merge
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.mapping import itself
from datum_compute.runtime.request import Request

LABEL = "greet"
NAME = "greeting"


def greeter(clusters: Fleet) -> Controller:
    """A change of a Namespace, or of a greeting in it, asks for that Namespace."""

    async def reconcile(request: Request) -> None:
        cluster = clusters.get(request.cluster)
        namespace = cluster and cluster.cache(NAMESPACES).get(request.name)
        if not cluster or not namespace or namespace.metadata.deleting:
            return
        whom = namespace.metadata.labels.get(LABEL)
        if whom is None:
            return
        wanted = {"text": f"Hello, {whom}"}
        greeting = cluster.cache(CONFIG_MAPS).get(NAME, request.name)
        if greeting is None:
            body = {"metadata": {"name": NAME}, "data": wanted}
            await cluster.client.create(CONFIG_MAPS, body, request.name)
        elif greeting.view(ConfigMap).data != wanted:
            metadata = {"resourceVersion": greeting.metadata.resource_version}
            change = merge({"metadata": metadata, "data": wanted})
            await cluster.client.patch(CONFIG_MAPS, NAME, change, request.name)

    def its_namespace(cluster: str, obj: Object) -> list[Request]:
        return [Request(cluster, "", obj.namespace)] if obj.name == NAME else []

    return Controller(
        "greeter",
        clusters,
        reconcile,
        watches=[Watch(clusters, NAMESPACES, itself), Watch(clusters, CONFIG_MAPS, its_namespace)],
    )
