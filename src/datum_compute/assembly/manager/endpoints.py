"""What a manager answers over HTTP about itself: health, readiness and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import parse_qs

from datum_compute.assembly.manager.http_server import Application, Message
from datum_compute.runtime import health
from datum_compute.runtime.health import HealthCheck
from datum_compute.runtime.metrics.registry import CONTENT_TYPE, MetricsRegistry

TEXT = "text/plain; charset=utf-8"

Page = Callable[[Mapping[str, Sequence[str]]], tuple[int, str, str]]
"""From the query to a status, a content type and a text."""


def health_app(*, alive: Sequence[HealthCheck], ready: Sequence[HealthCheck]) -> Application:
    """``/healthz``, ``/livez`` and ``/readyz``; ``?verbose`` lists every check."""

    def page(name: str, checks: Sequence[HealthCheck]) -> Page:
        def answer(query: Mapping[str, Sequence[str]]) -> tuple[int, str, str]:
            found = health.report(name, checks, verbose="verbose" in query)
            return (200 if found.healthy else 503), TEXT, found.text

        return answer

    return _app(
        {
            "/healthz": page("healthz", alive),
            "/livez": page("livez", alive),
            "/readyz": page("readyz", ready),
        }
    )


def metrics_app(registry: MetricsRegistry) -> Application:
    return _app({"/metrics": lambda _: (200, CONTENT_TYPE, registry.render())})


def _app(pages: Mapping[str, Page]) -> Application:
    async def app(
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return
        page = pages.get(scope["path"])
        if page is None:
            known = ", ".join(pages)
            answer = (404, TEXT, f"not found: this port serves {known}\n")
        elif scope["method"] not in ("GET", "HEAD"):
            answer = (405, TEXT, "only GET is served here\n")
        else:
            query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            answer = page(query)
        status, content_type, text = answer
        body = text.encode()
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": body})

    return app
