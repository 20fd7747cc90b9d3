"""A transport of asyncio without a socket: the test is the server."""

from __future__ import annotations

import asyncio

from datum_compute.client.http.connection import HttpConnection


class FakeSocket(asyncio.Transport):
    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self._connection = connection
        self._closing = False
        self.is_paused = False
        connection.connection_made(self)

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written.append(data)

    def is_closing(self) -> bool:
        return self._closing

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    def pause_reading(self) -> None:
        self._set_paused(True)

    def resume_reading(self) -> None:
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        if self._closing:
            raise RuntimeError("the transport is closing")  # as uvloop does
        assert self.is_paused is not paused
        self.is_paused = paused
