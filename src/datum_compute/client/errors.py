"""What can go wrong when talking to an API server, sorted by what to do next.

::

    ClientError
    ├── TransportFailure     no answer: retry later; a write may or may not have happened
    │   ├── ConnectFailed    never sent, so surely nothing happened
    │   ├── TimedOut         no answer in time
    │   ├── Disconnected     the connection broke underneath
    │   └── Unavailable      502, 503, 504: something in between, or a server going down
    ├── Malformed            an answer that is not the API's form: not a server of ours
    └── StatusError          the server answered no
        ├── NotFound         404: the object is not there, and the server knows the kind
        ├── NotServed        404: the server does not know the kind (yet)
        ├── AlreadyExists    409: read it and compare
        ├── Conflict         409: somebody was faster; read again
        ├── Expired          410: the revision is gone; list again
        ├── Invalid          400, 422: our request is at fault; retrying cannot help
        ├── Unauthorized     401: the credential
        ├── Forbidden        403: the rights, or an admission rule
        ├── Unsupported      405, 406, 415: the server does not do this
        ├── Throttled        429: come back after ``retry_after`` seconds
        └── ServerError      500 and any other code

``docs`` and tests hold this drawing to account: every class below has a place in it, and
every status code maps to exactly one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class ClientError(Exception):
    """Anything a client raises."""


class TransportFailure(ClientError):
    """No answer. Never evidence about what the server holds."""


class ConnectFailed(TransportFailure): ...


class TimedOut(TransportFailure): ...


class Disconnected(TransportFailure): ...


class Unavailable(TransportFailure): ...


class Malformed(ClientError):
    """The answer was not an API object. The message holds its first bytes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One fault of several in a refused request."""

    field: str
    reason: str
    message: str


class StatusError(ClientError):
    """The server answered no, in the API's ``Status`` form."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after


class NotFound(StatusError): ...


class NotServed(StatusError): ...


class AlreadyExists(StatusError): ...


class Conflict(StatusError): ...


class Expired(StatusError): ...


class Invalid(StatusError): ...


class Unauthorized(StatusError): ...


class Forbidden(StatusError): ...


class Unsupported(StatusError): ...


class Throttled(StatusError): ...


class ServerError(StatusError): ...


class _WireCause(msgspec.Struct):
    field: str = ""
    reason: str = ""
    message: str = ""


class _WireDetails(msgspec.Struct, rename="camel"):
    causes: list[_WireCause] = []
    retry_after_seconds: int = 0


class _WireStatus(msgspec.Struct):
    kind: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _WireDetails | None = None


_decode_status = msgspec.json.Decoder(_WireStatus).decode

_BY_CODE: dict[int, type[StatusError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Unsupported,
    406: Unsupported,
    409: Conflict,
    410: Expired,
    413: Invalid,
    415: Unsupported,
    422: Invalid,
    429: Throttled,
}


def error_for(code: int, body: bytes, *, what: str, retry_after: str = "") -> ClientError:
    """The error a response of this code stands for. ``what`` names the attempted call."""
    status = _status_of(body)
    text = (
        status.message if status else body[:200].decode("utf-8", "replace").strip()
    ) or "no body"
    message = f"{what}: {text}"
    if code in (502, 503, 504):
        # A ResourceVersionTooLarge answer is a 504 too; waiting and asking again is right there.
        return Unavailable(f"{message} (HTTP {code})")
    reason = status.reason if status else ""
    kind = _BY_CODE.get(code, ServerError)
    if code == 404 and status is None:
        # "404 page not found" in plain text: the path itself, hence the kind, is unknown.
        kind, reason = NotServed, "NotServed"
    elif code == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    details = status.details if status else None
    causes = tuple(Cause(c.field, c.reason, c.message) for c in details.causes) if details else ()
    seconds = _seconds(retry_after) or (float(details.retry_after_seconds) if details else 0.0)
    return kind(code, reason, message, causes=causes, retry_after=seconds or None)


def _status_of(body: bytes) -> _WireStatus | None:
    try:
        status = _decode_status(body)
    except msgspec.DecodeError:
        return None
    return status if status.kind == "Status" else None


def _seconds(header: str) -> float:
    try:
        return max(0.0, float(header))
    except ValueError:  # an HTTP date, which no API server sends
        return 0.0
