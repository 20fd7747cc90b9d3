"""Partitions: cells disconnected from hub, root and projects.

Every call between a cell and the other planes, in either direction, goes through a
:class:`PartitionedTransport`. While the cell is disconnected they fail as for an unreachable
host, and open watches break. Calls within the cell are not affected.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, TypeVar

from datum_compute.client import errors
from datum_compute.client.streams import InterruptibleStream
from datum_compute.client.transport import HttpRequest, HttpResponse, Transport, close_stream

T = TypeVar("T")


class Partitions:
    """Which cells are disconnected."""

    def __init__(
        self,
        cells: Iterable[str] = (),
        *,
        on_change: Callable[[list[str]], None] = lambda cells: None,
    ) -> None:
        """``on_change`` stores the disconnected cells before a change takes effect."""
        self._cells = set(cells)
        self._on_change = on_change
        self._streams: dict[PartitionedStream[Any], None] = {}

    @property
    def cells(self) -> list[str]:
        return sorted(self._cells)

    def disconnect(self, cell: str) -> None:
        self._on_change(sorted(self._cells | {cell}))
        self._cells.add(cell)
        for stream in list(self._streams):
            if stream.cell == cell:
                stream.break_off()

    def connect(self, cell: str) -> None:
        self._on_change(sorted(self._cells - {cell}))
        self._cells.discard(cell)

    def transport(self, inner: Transport, cell: str) -> Transport:
        """A transport between this cell and another plane."""
        return PartitionedTransport(self, inner, cell)

    def stream(self, inner: AsyncIterator[T], cell: str) -> PartitionedStream[T]:
        """A stream from this cell, which ends when it is disconnected."""
        return PartitionedStream(self, cell, inner)

    def is_disconnected(self, cell: str) -> bool:
        return cell in self._cells

    def opened(self, stream: PartitionedStream[Any]) -> None:
        self._streams[stream] = None

    def closed(self, stream: PartitionedStream[Any]) -> None:
        self._streams.pop(stream, None)


class PartitionedTransport:
    def __init__(self, partitions: Partitions, inner: Transport, cell: str) -> None:
        self._partitions = partitions
        self._inner = inner
        self._cell = cell

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if self._partitions.is_disconnected(self._cell):
            raise errors.ConnectFailed(_message(self._cell))
        response = await self._inner.send(request, timeout=timeout)
        if self._partitions.is_disconnected(self._cell):
            await close_stream(response.stream)
            raise errors.Disconnected(_message(self._cell))
        if response.stream is None:
            return response
        stream = self._partitions.stream(response.stream, self._cell)
        return HttpResponse(response.status, response.headers, stream=stream)

    async def close(self) -> None:
        await self._inner.close()


class PartitionedStream(InterruptibleStream[T]):
    """A watch or a followed log, which a partition breaks."""

    def __init__(self, partitions: Partitions, cell: str, inner: AsyncIterator[T]) -> None:
        super().__init__(inner)
        self.cell = cell
        self._partitions = partitions
        partitions.opened(self)

    async def aclose(self) -> None:
        self._partitions.closed(self)
        await super().aclose()

    def break_off(self) -> None:
        self.interrupt(errors.Disconnected(_message(self.cell)))


def _message(cell: str) -> str:
    return f"cell {cell} is disconnected"
