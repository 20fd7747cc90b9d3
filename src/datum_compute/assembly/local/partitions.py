"""Cells that are cut off from the centre, to see that they live alone.

Every call between a cell and hub, root or projects goes through a :class:`PartitionedTransport`, in
either direction: the cell's own calls to the centre, and the centre's into the cell. While
the cell is disconnected they fail as an unreachable host would make them fail, and watches
that were open break. What stays within the cell is not affected.
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
        """``on_change`` keeps what it is told for the next start, before it takes effect."""
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
        """A way between this cell and the centre."""
        return PartitionedTransport(self, inner, cell)

    def stream(self, inner: AsyncIterator[T], cell: str) -> PartitionedStream[T]:
        """What comes across from this cell, until it is cut off."""
        return PartitionedStream(self, cell, inner)

    def is_cut(self, cell: str) -> bool:
        return cell in self._cells

    def opened(self, stream: PartitionedStream[Any]) -> None:
        self._streams[stream] = None

    def closed(self, stream: PartitionedStream[Any]) -> None:
        self._streams.pop(stream, None)


class PartitionedTransport:
    def __init__(self, cuts: Partitions, inner: Transport, cell: str) -> None:
        self._cuts = cuts
        self._inner = inner
        self._cell = cell

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if self._cuts.is_cut(self._cell):
            raise errors.ConnectFailed(_message(self._cell))
        response = await self._inner.send(request, timeout=timeout)
        if self._cuts.is_cut(self._cell):
            await close_stream(response.stream)
            raise errors.Disconnected(_message(self._cell))
        if response.stream is None:
            return response
        stream = self._cuts.stream(response.stream, self._cell)
        return HttpResponse(response.status, response.headers, stream=stream)

    async def close(self) -> None:
        await self._inner.close()


class PartitionedStream(InterruptibleStream[T]):
    """A watch, or a log, that a partition disconnects."""

    def __init__(self, cuts: Partitions, cell: str, inner: AsyncIterator[T]) -> None:
        super().__init__(inner)
        self.cell = cell
        self._cuts = cuts
        cuts.opened(self)

    async def aclose(self) -> None:
        self._cuts.closed(self)
        await super().aclose()

    def break_off(self) -> None:
        self.interrupt(errors.Disconnected(_message(self.cell)))


def _message(cell: str) -> str:
    return f"cell {cell} is disconnected"
