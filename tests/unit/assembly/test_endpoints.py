"""What a manager answers about itself over HTTP."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp

from datum_compute.assembly.manager.endpoints import health_app, metrics_app
from datum_compute.runtime.health import HealthCheck
from datum_compute.runtime.metrics.registry import MetricsRegistry


async def ask(app: ASGIApp, path: str, query: str = "", method: str = "GET") -> tuple[int, str]:
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("nothing of the request is needed")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [],
    }
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"].decode()


async def test_readyz_succeeds_only_when_nothing_is_missing() -> None:
    missing = ["fleet hub: not discovered"]
    ping = HealthCheck("ping", tuple)
    app = health_app(alive=[ping], ready=[ping, HealthCheck("caches", lambda: missing)])

    assert await ask(app, "/healthz") == (200, "ok")
    status, text = await ask(app, "/readyz")
    assert status == 503
    assert "[-]caches failed: fleet hub: not discovered\n" in text
    missing.clear()
    assert await ask(app, "/readyz") == (200, "ok")
    assert (await ask(app, "/readyz", "verbose"))[1].startswith("[+]ping ok\n[+]caches ok\n")


async def test_metrics_are_those_of_the_registry() -> None:
    registry = MetricsRegistry()
    registry.counter("n_total", "Some.").labels().inc()
    app = metrics_app(registry)

    assert await ask(app, "/metrics") == (
        200,
        "# HELP n_total Some.\n# TYPE n_total counter\nn_total 1.0\n",
    )
    assert (await ask(app, "/metrics", method="HEAD"))[0] == 200
    assert (await ask(app, "/metrics", method="POST"))[0] == 405
    assert (await ask(app, "/"))[0] == 404
