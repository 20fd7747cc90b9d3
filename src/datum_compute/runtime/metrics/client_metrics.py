"""Requests to API servers, counted under the name that Kubernetes' own clients use."""

from __future__ import annotations

from dataclasses import asdict

from datum_compute.client import errors
from datum_compute.client.decoder import UnreadableObject
from datum_compute.client.transport import HttpRequest, HttpResponse, Transport
from datum_compute.log import get_logger
from datum_compute.runtime.metrics.registry import Counter, MetricsRegistry

logger = get_logger(__name__)


class CountedTransport:
    """A transport that counts its answers by status code; no answer counts as an error."""

    def __init__(self, transport: Transport, registry: MetricsRegistry, host: str) -> None:
        self._transport = transport
        self._host = host
        self._family = registry.counter(
            "rest_client_requests_total",
            "Requests to API servers; the code is <error> where there was no response.",
            *("code", "method", "host"),
        )
        self._known: dict[tuple[str, int], Counter] = {}

    async def send(self, request: HttpRequest, *, timeout: float | None = None) -> HttpResponse:
        try:
            response = await self._transport.send(request, timeout=timeout)
        except errors.TransportFailure:
            self._family.labels("<error>", request.method, self._host).inc()
            raise
        key = (request.method, response.status)
        counter = self._known.get(key)
        if counter is None:
            labels = (str(response.status), request.method, self._host)
            counter = self._known[key] = self._family.labels(*labels)
        counter.inc()
        return response

    async def close(self) -> None:
        await self._transport.close()


class UnreadableCount:
    """Counts and logs objects that could not be decoded."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._family = registry.counter(
            "compute_runtime_malformed_objects_total",
            "Objects that could not be decoded in full.",
            *("cluster", "resource"),
        )

    def __call__(self, found: UnreadableObject) -> None:
        self._family.labels(found.cluster, found.resource).inc()
        logger.warning("object could not be read", **asdict(found))
