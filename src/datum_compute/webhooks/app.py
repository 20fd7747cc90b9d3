"""The admission reviews over HTTP: one path for mutation, one for validation.

A review that can be read is answered with 200, denials included: the decision is in the body. Any
other status means that the request was no review.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from datum_compute.log import get_logger
from datum_compute.webhooks.review import BadReview
from datum_compute.webhooks.workload import MUTATE_PATH, VALIDATE_PATH, WorkloadReviews

MAX_BODY = 8 * 2**20
"""Bytes of a review. It holds an object twice, and an API server takes 3 MiB for one."""

BODY_SECONDS = 30.0
"""The time for a whole body to arrive. No API server waits longer than that for an answer."""

logger = get_logger(__name__)

ReviewHandler = Callable[[Any], Awaitable[dict[str, Any]]]
"""From the JSON values of a review to those of its answer."""


def webhook_app(reviews: WorkloadReviews) -> Starlette:
    return Starlette(
        routes=[_route(MUTATE_PATH, reviews.mutate), _route(VALIDATE_PATH, reviews.validate)],
        exception_handlers={404: _not_found, HTTPException: _refused},
    )


def _route(path: str, handler: ReviewHandler) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            return _json(200, await handler(await _read(request)))
        except BadReview as error:
            raise HTTPException(400, str(error)) from error
        except ClientDisconnect:
            return Response(status_code=400)  # not sent: the client has closed the connection
        except HTTPException:
            raise
        except Exception:  # a bug in one review must not end the others
            logger.exception("review failed", path=path)
            return _json(500, {"error": "the review failed; the log has the cause"})

    return Route(path, endpoint, methods=["POST"])


async def _read(request: Request) -> Any:
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, f'a review is application/json, not "{content_type}"')
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY:
                    raise HTTPException(413, f"a review has at most {MAX_BODY} bytes")
    except TimeoutError as error:
        raise HTTPException(408, f"the body did not arrive within {BODY_SECONDS:g} s") from error
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error


async def _not_found(request: Request, _: Exception) -> Response:
    known = f"{MUTATE_PATH}, {VALIDATE_PATH}"
    return _json(404, {"error": f"no reviews at {request.url.path}; they are at {known}"})


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json(error.status_code, {"error": error.detail})


def _json(status: int, values: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(values), status, media_type="application/json")
