"""The lines of a Pod's containers, through the API server of the cell."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from urllib.parse import urlencode

from datum_compute.api import core
from datum_compute.client import errors
from datum_compute.client.protocol import Client
from datum_compute.providers.logs import ContainerGone, LineSplitter
from datum_compute.providers.pod.spec import PODS_BY_UID, SELECTOR
from datum_compute.providers.protocol import LinesAway, LogLine
from datum_compute.runtime.fleet import Fleet


class PodLogs:
    """See ``ContainerLines``. The key of a container is cluster, namespace, Pod and name."""

    def __init__(self, cell: Fleet) -> None:
        self._cell = cell

    async def containers(self, uid: str) -> list[str]:
        found = []
        for cluster in self._cell.clusters():
            cache = cluster.cache(core.PODS, label_selector=SELECTOR)
            for pod in cache.by_index(PODS_BY_UID, uid):
                names = (each.name for each in pod.view(core.Pod).status.container_statuses)
                found += [f"{cluster.name}/{pod.namespace}/{pod.name}/{name}" for name in names]
        return found

    async def read(
        self, container: str, tail: int | None, since: datetime | None, *, follow: bool
    ) -> AsyncGenerator[LogLine, None]:
        cluster_name, namespace, pod, name = container.split("/")
        cluster = self._cell.get(cluster_name)
        if cluster is None:
            raise LinesAway(f"cluster {cluster_name} is not engaged")
        query = {"container": name, "timestamps": "true"}
        if follow:
            query["follow"] = "true"
        if tail is not None:
            query["tailLines"] = str(tail)
        if since is not None:
            query["sinceTime"] = f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        path = f"{core.PODS.path(namespace, pod, 'log')}?{urlencode(query)}"
        try:
            async for line in _lines(cluster.client, path):
                # The server compares whole seconds.
                if since is None or line.at >= since:
                    yield line
        except errors.NotFound as error:
            raise ContainerGone(str(error)) from error
        except errors.Invalid:
            return  # it has not started yet
        except errors.ClientError as error:
            raise LinesAway(str(error)) from error


async def _lines(client: Client, path: str) -> AsyncGenerator[LogLine, None]:
    splitter = LineSplitter()
    async with client.stream(path) as chunks:
        async for chunk in chunks:
            for line in splitter.feed(chunk):
                yield line
    for line in splitter.end():
        yield line
