"""A stream that is interrupted, alone and together with a cancellation of its reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from datum_compute.client.streams import InterruptibleStream


class Source:
    """One item, then silence."""

    def __init__(self) -> None:
        self.is_closed = False
        self._items = ["first"]

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        if self._items:
            return self._items.pop()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        self.is_closed = True


async def read(stream: InterruptibleStream[str]) -> list[str]:
    return [item async for item in stream]


async def test_an_interruption_ends_the_pending_read_and_all_later_ones() -> None:
    stream = InterruptibleStream(Source())
    reading = asyncio.ensure_future(read(stream))
    await asyncio.sleep(1)
    assert stream.is_being_read

    stream.interrupt(KeyError("reason"))
    stream.interrupt(ValueError("too late"))

    for pending in (reading, anext(stream)):
        with pytest.raises(KeyError, match="reason"):
            await pending
    assert not reading.cancelled()


async def test_an_interruption_between_reads_is_raised_by_the_next() -> None:
    stream = InterruptibleStream(Source())
    assert await anext(stream) == "first"

    stream.interrupt(KeyError("reason"))

    with pytest.raises(KeyError):
        await anext(stream)


async def test_a_stream_can_be_made_to_end() -> None:
    stream = InterruptibleStream(Source())
    reading = asyncio.ensure_future(read(stream))
    await asyncio.sleep(1)

    stream.interrupt(StopAsyncIteration())

    assert await reading == ["first"]


@pytest.mark.parametrize("is_cancelled_first", [True, False])
async def test_a_cancelled_reader_stays_cancelled(is_cancelled_first: bool) -> None:
    stream = InterruptibleStream(Source())
    reading = asyncio.ensure_future(read(stream))
    await asyncio.sleep(1)

    if is_cancelled_first:
        reading.cancel()
    stream.interrupt(KeyError("reason"))
    if not is_cancelled_first:
        reading.cancel()

    await asyncio.wait([reading])
    assert reading.cancelled()


async def test_a_reader_that_survived_a_cancellation_is_interrupted() -> None:
    """Its count of cancellations is not zero, and none of them is the stream's."""
    stream = InterruptibleStream(Source())

    async def survive_then_read() -> list[str]:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            pass
        return await read(stream)

    reading = asyncio.ensure_future(survive_then_read())
    await asyncio.sleep(1)
    reading.cancel()
    await asyncio.sleep(1)

    stream.interrupt(KeyError("reason"))

    with pytest.raises(KeyError):
        await reading


async def test_closing_closes_the_source() -> None:
    source = Source()

    await InterruptibleStream(source).aclose()

    assert source.is_closed
