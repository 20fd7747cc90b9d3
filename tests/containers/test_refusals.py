"""What a real engine refuses after it was killed, and what becomes of it."""

from __future__ import annotations

import json

import pytest

from datum_compute.providers.conformance import harness as kit
from tests.support.providers.container import container_cell

pytestmark = [pytest.mark.containers, pytest.mark.realtime]


class StaleTask:
    """The words of docker that was killed in the middle of a start: it does not start this
    container any more."""

    def __init__(self) -> None:
        self.refused = 0
        self._is_removed = False

    def __call__(self, request: bytes) -> bytes:
        words = request.partition(b"\r\n")[0].split()
        if words[0] == b"DELETE" and b"/containers/" in words[1]:
            self._is_removed = True
        if words[0] != b"POST" or not words[1].endswith(b"/start") or self._is_removed:
            return b""
        self.refused += 1
        body = json.dumps({"message": f"task {'0123456789abcdef' * 4}: already exists"}).encode()
        return (
            b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )


async def test_a_container_whose_start_was_cut_off_is_made_anew(engine: str) -> None:
    async with container_cell(engine) as cell:
        stale = cell.proxy.answer = StaleTask()
        await kit.create(cell, "cut-0")
        await kit.wait_available(cell, "cut-0")
        assert stale.refused == 1
