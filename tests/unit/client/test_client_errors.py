"""Each answer of a server becomes exactly one class of error."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.call import ClientCall
from tests.support.client.scripted_server import encode, refusal
from tests.support.paths import ROOT

CALL = ClientCall("get", Resource("", "v1", "things", "Thing"), cluster="toys")
DOCS = ROOT / "docs" / "develop" / "client.md"


def drawn(text: str) -> dict[str, str]:
    """Each class in the first drawing of a text, with the class it hangs from."""
    parents: list[str] = []
    found: dict[str, str] = {}
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.strip() == "ClientError")
    margin = lines[start].index("ClientError")
    for line in lines[start:]:
        match = re.match(r"[│├└─ ]*(\w+)", line)
        if match is None:
            break
        depth = (match.start(1) - margin) // 4
        parents[depth:] = [match[1]]
        found[match[1]] = parents[depth - 1] if depth else "Exception"
    return found


def declared() -> dict[str, str]:
    return {
        name: value.__mro__[1].__name__
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.ClientError)
    }


def test_the_diagram_of_errors_shows_every_class() -> None:
    assert errors.__doc__ is not None
    assert drawn(errors.__doc__) == declared()


def test_the_page_shows_the_same_diagram() -> None:
    assert drawn(DOCS.read_text()) == declared()


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", errors.Invalid),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.Unsupported),
        (406, "NotAcceptable", errors.Unsupported),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Expired", errors.Expired),
        (410, "Gone", errors.Expired),
        (413, "RequestEntityTooLarge", errors.Invalid),
        (415, "UnsupportedMediaType", errors.Unsupported),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.Throttled),
        (500, "InternalError", errors.ServerError),
        (418, "Teapot", errors.ServerError),
    ],
)
def test_each_code_has_its_class(code: int, reason: str, expected: type[Exception]) -> None:
    error = errors.error_for(code, encode(refusal(code, reason, name="one")), call=CALL)

    assert type(error) is expected
    assert isinstance(error, errors.StatusError)
    assert (error.code, error.reason) == (code, reason)
    assert error.message == f"get things on toys: {reason} from the toy"


@pytest.mark.parametrize("code", [502, 503, 504])
def test_a_gateway_error_is_unavailable(code: int) -> None:
    error = errors.error_for(code, b"<html>bad gateway</html>", call=CALL)

    assert type(error) is errors.Unavailable
    assert str(error) == f"get things on toys: <html>bad gateway</html> (HTTP {code})"


@pytest.mark.parametrize(
    "body",
    [b"404 page not found\n", b"", encode(refusal(404, "NotFound")), encode({"kind": "Widget"})],
    ids=["text", "empty", "status", "other"],
)
def test_a_404_without_an_object_does_not_prove_absence(body: bytes) -> None:
    assert type(errors.error_for(404, body, call=CALL)) is errors.NotServed


def test_causes_are_kept() -> None:
    body = refusal(422, "Invalid", causes=[{"field": "spec.a", "reason": "R", "message": "m"}])

    error = errors.error_for(422, encode(body), call=CALL)

    assert isinstance(error, errors.Invalid)
    assert error.causes == (errors.StatusCause("spec.a", "R", "m"),)


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        ("7", {}, 7.0),
        ("", {"retryAfterSeconds": 3}, 3.0),
        ("7", {"retryAfterSeconds": 3}, 7.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {}, None),
        ("-1", {}, None),
        ("", {}, None),
    ],
)
def test_retry_after_is_parsed(header: str, details: Any, expected: float | None) -> None:
    body = encode(refusal(429, "TooManyRequests", **details))

    error = errors.error_for(429, body, call=CALL, retry_after=header)

    assert isinstance(error, errors.Throttled)
    assert error.retry_after == expected


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe not text",
        b"[" * 100_000,
        b'{"kind": "Status", "message": 5, "reason": [], "details": "x", "code": "y"}',
        b'{"kind": "Status", "details": {"causes": ["x", {"field": 1}], "retryAfterSeconds": {}}}',
        b"null",
    ],
    ids=["bytes", "deep", "types", "details", "null"],
)
def test_a_malformed_body_gives_the_error_class_of_its_code(body: bytes) -> None:
    assert type(errors.error_for(500, body, call=CALL)) is errors.ServerError
    assert isinstance(errors.error_for_event(body, call=CALL), errors.ServerError)


def test_an_error_event_carries_its_code_inside() -> None:
    error = errors.error_for_event(encode(refusal(410, "Expired")), call=CALL)

    assert type(error) is errors.Expired
