"""Keeps a ConfigMap ``greeting`` in every Namespace that is labelled ``greet``."""

from __future__ import annotations

from datum_compute.api.core import CONFIG_MAPS, NAMESPACES, ConfigMap
from datum_compute.api.meta import owner_reference
from datum_compute.client.protocol import merge
from datum_compute.runtime.controller import Controller, Watch
from datum_compute.runtime.fleet import Fleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.writes import patch

LABEL = "greet"
NAME = "greeting"


def greeter(clusters: Fleet) -> Controller:
    """A change of a Namespace, or of an object it owns, enqueues that Namespace."""

    async def reconcile(request: Request) -> None:
        cluster = clusters.get(request.cluster)
        namespace = cluster and cluster.cache(NAMESPACES).get(request.name)
        if not cluster or not namespace or namespace.metadata.deleting:
            return
        whom = namespace.metadata.labels.get(LABEL)
        greeting = cluster.cache(CONFIG_MAPS).get(NAME, request.name)
        owners = [owner_reference(namespace, controller=True)]
        wanted = {"text": f"Hello, {whom}"}
        if whom is None:
            if greeting is not None and greeting.metadata.controller() is not None:
                await patch.delete_if_present(cluster.client, CONFIG_MAPS, greeting)
        elif greeting is None:
            body = {"metadata": {"name": NAME, "ownerReferences": owners}, "data": wanted}
            await cluster.client.create(CONFIG_MAPS, body, request.name)
        elif greeting.view(ConfigMap).data.get("text") != wanted["text"]:
            condition = {"resourceVersion": greeting.metadata.resource_version}
            change = {"metadata": {**condition, "ownerReferences": owners}, "data": wanted}
            await cluster.client.patch(CONFIG_MAPS, NAME, merge(change), request.name)

    return Controller(
        "greeter",
        clusters,
        reconcile,
        watches=[
            Watch.each(clusters, NAMESPACES),
            Watch.owned(clusters, CONFIG_MAPS, by=NAMESPACES),
        ],
    )
