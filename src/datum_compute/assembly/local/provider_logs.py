"""Where the lines of an Instance come from: from the provider of its cell.

Asked on a project's plane, the Instance there is a projection: its labels name the cell, and
an annotation the uid it has there. Asked on the cell's own plane, it is the Instance itself.
From a project the way leads across the border of the cell, so a cell that is cut off tells
nothing, and what was being followed ends.
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
    """The providers of a platform's cells, as the API server asks them."""

    def __init__(self, cuts: Partitions) -> None:
        self._cuts = cuts
        self._providers: dict[str, LogSource] = {}

    def set_provider(self, cell: str, provider: LogSource) -> None:
        """From now on this is who tells of the cell's Instances."""
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
            if self._cuts.is_cut(cell):
                raise LogsUnavailable(
                    f"cell {cell} is disconnected, so the logs of its instances are out of reach"
                )
        provider = self._providers.get(cell)
        if provider is None:
            raise LogsUnavailable(
                f'instance "{metadata["name"]}" names no cell of this platform'
                f' in its label {compute.LABEL_SOURCE_CLUSTER}: found "{cell}"'
            )
        lines = provider.lines(uid, tail=tail, since=since, follow=follow)
        return lines if plane_type is CELL else _until_cut(self._cuts, cell, lines)


async def _until_cut(
    cuts: Partitions, cell: str, lines: AsyncIterator[LogLine]
) -> AsyncIterator[LogLine]:
    stream = cuts.stream(lines, cell)
    try:
        async for line in stream:
            yield line
    except errors.Disconnected:
        return
    finally:
        await stream.aclose()
