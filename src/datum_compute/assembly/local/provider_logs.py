"""The logs of Instances, from the provider of their cell.

On a project's plane the Instance is a projection: its labels name the cell, and an annotation
its uid there. On the cell's own plane it is the Instance itself. Logs of a disconnected cell
are unavailable in a project, and followed logs end when it is disconnected.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

from datum_compute.api import planes
from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.planes import CELL, PROJECT
from datum_compute.apiserver.verbs.logs import LogSubresource, LogsUnavailable
from datum_compute.assembly.local.partitions import Partitions
from datum_compute.client import errors
from datum_compute.providers.protocol import LogLine, LogSource

PLANE_TYPES = frozenset({PROJECT, CELL})


class ProviderLogs:
    """The log sources of a platform's cells."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._providers: dict[str, LogSource] = {}

    def set_provider(self, cell: str, provider: LogSource) -> None:
        """Use this provider for the logs of the cell, in place of an earlier one."""
        self._providers[cell] = provider

    def as_logs(self) -> LogSubresource:
        return LogSubresource(compute.INSTANCES.group_resource, PLANE_TYPES, self.read)

    def read(
        self,
        plane: str,
        obj: Mapping[str, Any],
        *,
        tail: int | None,
        since: datetime | None,
        follow: bool,
    ) -> AsyncIterator[LogLine]:
        plane_type, cell = planes.plane_type(plane), planes.cluster_name(plane)
        metadata = obj["metadata"]
        uid = metadata["uid"]
        if plane_type is PROJECT:
            cell = metadata.get("labels", {}).get(compute.LABEL_SOURCE_CLUSTER, "")
            uid = metadata.get("annotations", {}).get(compute.ANNOTATION_INSTANCE_UID, "")
            if self._partitions.is_disconnected(cell):
                raise LogsUnavailable(
                    f"cell {cell} is disconnected, so the logs of its instances cannot be read"
                )
        provider = self._providers.get(cell)
        if provider is None:
            raise LogsUnavailable(
                f'instance "{metadata["name"]}" does not name a cell of this platform'
                f' in its label {compute.LABEL_SOURCE_CLUSTER}: found "{cell}"'
            )
        lines = provider.lines(uid, tail=tail, since=since, follow=follow)
        return lines if plane_type is CELL else _until_disconnected(self._partitions, cell, lines)


async def _until_disconnected(
    partitions: Partitions, cell: str, lines: AsyncIterator[LogLine]
) -> AsyncIterator[LogLine]:
    stream = partitions.stream(lines, cell)
    try:
        async for line in stream:
            yield line
    except errors.Disconnected:
        return
    finally:
        await stream.aclose()
