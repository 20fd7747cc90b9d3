"""The health, readiness and metrics endpoints of a manager."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from datum_compute.runtime import health
from datum_compute.runtime.health import HealthCheck
from datum_compute.runtime.metrics.exposition import CONTENT_TYPE, render
from datum_compute.runtime.metrics.registry import MetricsRegistry


def health_app(*, alive: Sequence[HealthCheck], ready: Sequence[HealthCheck]) -> Starlette:
    """``/healthz``, ``/livez`` and ``/readyz``; ``?verbose`` lists every check."""
    return Starlette(
        routes=[
            _health_route("healthz", alive),
            _health_route("livez", alive),
            _health_route("readyz", ready),
        ]
    )


def _health_route(name: str, checks: Sequence[HealthCheck]) -> Route:
    async def endpoint(request: Request) -> Response:
        found = health.report(name, checks, verbose="verbose" in request.query_params)
        return PlainTextResponse(found.text, 200 if found.healthy else 503)

    return Route(f"/{name}", endpoint)


def metrics_app(registry: MetricsRegistry) -> Starlette:
    async def endpoint(_: Request) -> Response:
        return Response(render(registry), media_type=CONTENT_TYPE)

    return Starlette(routes=[Route("/metrics", endpoint)])
