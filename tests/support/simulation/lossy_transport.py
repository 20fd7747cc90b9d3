"""A network that loses some writes on the way there, and some replies on the way back."""

from __future__ import annotations

from random import Random

from datum_compute.client import errors
from datum_compute.client.transport import HttpRequest, HttpResponse, Transport


class LossyTransport:
    """Loses this share of the writes: half of them before they arrive, half of the replies."""

    def __init__(self, transport: Transport, chance: Random, share: float) -> None:
        self._transport = transport
        self._chance = chance
        self._share = share

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        if request.method == "GET":
            return await self._transport.send(request, timeout=timeout)
        fate = self._chance.random()
        if fate < self._share / 2:
            raise errors.Disconnected("the request was lost")
        response = await self._transport.send(request, timeout=timeout)
        if fate < self._share:
            raise errors.Disconnected("the reply was lost")
        return response

    async def close(self) -> None:
        await self._transport.close()
