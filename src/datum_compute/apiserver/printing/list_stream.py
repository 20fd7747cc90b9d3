"""A list that is rendered slice by slice.

What it shows was chosen before: the stream holds versions, which never change. Between two slices
other requests go on. A slow client therefore delays none, and costs the memory of a slice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from datum_compute.apiserver.request.flow_control import SLICE_BYTES, Usage


class ListStream:
    """Head, items with a separator between them, and tail. It counts as one slice of responses
    that are not taken, until it ends or is closed."""

    def __init__(
        self,
        head: bytes,
        items: Iterable[bytes],
        tail: bytes,
        *,
        separator: bytes,
        render: Callable[[bytes], bytes] | None,
        usage: Usage,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        self._slice_bytes = slice_bytes
        self._items = iter(items)
        self._render = render
        self._separator = separator
        self._before = b""
        self._tail = tail
        self._head = head
        self._usage = usage
        self._is_open = False
        self.is_complete = False
        self.first = self.render_slice()
        """The first slice; the whole list when it is complete."""

    def open(self) -> ListStream:
        """To be sent as a stream."""
        self._is_open = True
        self._usage.response_bytes += SLICE_BYTES
        return self

    def render_slice(self) -> bytes:
        parts, size = [self._head], 0
        self._head = b""
        for raw in self._items:
            size += len(raw)
            if self._render is not None:
                rendered = self._render(raw)
                size += max(0, len(rendered) - len(raw))
                raw = rendered
            parts += (self._before, raw)
            self._before = self._separator
            if size >= self._slice_bytes:
                return b"".join(parts)
        self.is_complete = True
        parts.append(self._tail)
        return b"".join(parts)

    def __aiter__(self) -> ListStream:
        return self

    async def __anext__(self) -> bytes:
        first, self.first = self.first, b""
        if first:
            return first
        if self.is_complete:
            await self.aclose()
            raise StopAsyncIteration
        await asyncio.sleep(0)
        return self.render_slice()

    async def aclose(self) -> None:
        self._items = iter(())
        if self._is_open:
            self._is_open = False
            self._usage.response_bytes -= SLICE_BYTES
