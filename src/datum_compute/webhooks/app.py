"""The reviews as an ASGI application: two paths, JSON in and out, clear words otherwise.

A review that was understood is answered with 200, refusals included; the API server reads
the verdict from the body. Any other status says that the request itself was no review.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec

from datum_compute.log import get_logger
from datum_compute.webhooks.review import BadReview
from datum_compute.webhooks.workload import MUTATE_PATH, VALIDATE_PATH, WorkloadReviews

MAX_BODY = 8 * 2**20
"""Bytes of a review. It holds an object twice, and an API server takes 3 MiB for one."""

BODY_SECONDS = 30.0
"""For all of a body to arrive. No API server waits longer than that for an answer."""

logger = get_logger(__name__)

Message = MutableMapping[str, Any]
"""One of ASGI's own: keys and values differ with its type."""
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handler = Callable[[Any], Awaitable[dict[str, Any]]]
"""From the JSON values of a review to those of its answer."""


class _Refused(Exception):
    """No review: a status code and the reason in words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _ClientGone(Exception):
    """The connection ended before the request did."""


class WebhookApp:
    """The two paths of one set of reviews."""

    def __init__(self, reviews: WorkloadReviews) -> None:
        self._handlers: Mapping[str, Handler] = {
            MUTATE_PATH: reviews.mutate,
            VALIDATE_PATH: reviews.validate,
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            code, body = 200, msgspec.json.encode(await self._answer(scope, receive))
        except _ClientGone:
            return
        except (_Refused, BadReview) as error:
            code = error.code if isinstance(error, _Refused) else 400
            body = msgspec.json.encode({"error": str(error)})
        except Exception:  # our bug in one review must not end the others
            logger.exception("review failed", path=scope["path"])
            code, body = 500, msgspec.json.encode({"error": "the review failed; the log says why"})
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Message, receive: Receive) -> dict[str, Any]:
        handler = self._handlers.get(scope["path"])
        if handler is None:
            known = ", ".join(self._handlers)
            raise _Refused(404, f"no reviews are answered at {scope['path']}; they are at {known}")
        if scope["method"] != "POST":
            raise _Refused(405, f"a review is sent with POST, not with {scope['method']}")
        form = dict(scope["headers"]).get(b"content-type", b"").decode("latin-1")
        if form.partition(";")[0].strip().lower() != "application/json":
            raise _Refused(415, f'a review is application/json, not "{form}"')
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(receive)
        except TimeoutError as error:
            raise _Refused(408, f"the body did not arrive within {BODY_SECONDS:g} s") from error
        try:
            values = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _Refused(400, f"the body is not JSON: {error}") from error
        return await handler(values)


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY:
            raise _Refused(413, f"a review has at most {MAX_BODY} bytes")
        more = message.get("more_body", False)
    return b"".join(parts)
