"""A transport that retries, around one that does not."""

from __future__ import annotations

import asyncio

from datum_compute.client import errors
from datum_compute.client.retry import AttemptOutcome, RetryPolicy
from datum_compute.client.transport import HttpRequest, HttpResponse, Transport, close_stream


class RetryingTransport:
    """The timeout of a call bounds all its attempts together."""

    def __init__(self, transport: Transport, policy: RetryPolicy) -> None:
        self._transport = transport
        self._policy = policy
        self._closed = False

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout if timeout is not None else float("inf")
        is_read = request.method in ("GET", "HEAD") and request.stream is None
        self._policy.record_call()
        tried = 0
        while True:
            left = deadline - loop.time() if timeout is not None else None
            tried += 1
            response, outcome = await self._try(request, left)
            delay = None
            if not self._closed:
                delay = self._policy.delay(outcome, tried, is_read=is_read)
            if delay is None or loop.time() + delay >= deadline:
                if response is None:
                    assert outcome.failure is not None
                    raise outcome.failure
                return response
            if response is not None:
                await close_stream(response.stream)
            await asyncio.sleep(delay)

    async def close(self) -> None:
        self._closed = True
        await self._transport.close()

    async def _try(
        self, request: HttpRequest, timeout: float | None
    ) -> tuple[HttpResponse | None, AttemptOutcome]:
        try:
            response = await self._transport.send(request, timeout=timeout)
        except errors.TransportFailure as failure:
            return None, AttemptOutcome(failure)
        retry_after = response.headers.get("retry-after", "")
        return response, AttemptOutcome(status=response.status, retry_after=retry_after)
