"""What can go wrong when talking to an API server, sorted by what to do next.

::

    ClientError
    ├── TransportFailure     no answer: retry later; a write may or may not have happened
    │   ├── ConnectFailed    never sent, so surely nothing happened
    │   ├── TimedOut         no answer in time
    │   ├── Disconnected     the connection broke underneath
    │   └── Unavailable      502, 503, 504: something in between, or a server going down
    ├── CredentialFailed     no credential: nothing was sent; a person must act
    ├── Malformed            an answer that is not the API's form: not a server of ours
    └── StatusError          the server refused
        ├── NotFound         404: the object is not there, and the server knows the kind
        ├── NotServed        404: the server does not know the kind (yet)
        ├── AlreadyExists    409: read it and compare
        ├── Conflict         409: the object has changed; read it again
        ├── Expired          410: the revision is gone; list again
        ├── Invalid          400, 422: our request is at fault; retrying cannot help
        ├── Unauthorized     401: the credential
        ├── Forbidden        403: the rights, or an admission rule
        │   └── NamespaceTerminating  nothing is created in a namespace that is being deleted
        ├── Unsupported      405, 406, 415: the server does not do this
        ├── Throttled        429: retry after ``retry_after`` seconds
        └── ServerError      500 and any other code

A test compares this drawing with the classes below, and every status code maps to exactly one of
them.

The CLI's plain reads raise these too, so this module imports nothing heavy: a ``Status``
is read with the standard library.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from datum_compute.client.call import AnyCall


class ClientError(Exception):
    """Anything a client raises. ``str()`` names the call too; ``detail`` does not."""

    def __init__(self, detail: str, *, call: AnyCall | None = None) -> None:
        """``call`` is None only below the client, which knows paths alone."""
        super().__init__(detail)
        self.detail = detail
        self.call = call

    def __str__(self) -> str:
        return f"{self.call.describe()}: {self.detail}" if self.call else self.detail


class Fault(StrEnum):
    """Why no answer came."""

    REFUSED = "Refused"
    NAME_UNKNOWN = "NameUnknown"
    CERTIFICATE_UNTRUSTED = "CertificateUntrusted"
    NOT_TLS = "NotTLS"
    TIMED_OUT = "TimedOut"
    BROKEN = "Broken"
    UNAVAILABLE = "Unavailable"


class TransportFailure(ClientError):
    """No answer. Never evidence about what the server holds."""

    fault = Fault.BROKEN
    """As far as the layer that raised it knows."""

    def __init__(
        self,
        detail: str,
        *,
        call: AnyCall | None = None,
        server: str = "",
        status_code: int = 0,
        fault: Fault | None = None,
    ) -> None:
        """``server`` is an origin, or empty in process; ``status_code`` 0 without a response."""
        super().__init__(detail, call=call)
        self.server = server
        self.status_code = status_code
        if fault is not None:
            self.fault = fault

    def __str__(self) -> str:
        call = self.call.describe() if self.call else ""
        text = ": ".join(filter(None, (call, self.server, self.detail)))
        return f"{text} (HTTP {self.status_code})" if self.status_code else text

    def with_call(self, call: AnyCall) -> Self:
        """A copy that names the call."""
        return type(self)(
            self.detail,
            call=call,
            server=self.server,
            status_code=self.status_code,
            fault=self.fault,
        )


class ConnectFailed(TransportFailure): ...


class TimedOut(TransportFailure):
    fault = Fault.TIMED_OUT


class Disconnected(TransportFailure): ...


class Unavailable(TransportFailure):
    fault = Fault.UNAVAILABLE


class CredentialFailed(ClientError):
    """There is no credential: a token file or a credential program fails."""


class Malformed(ClientError):
    """The answer was not an API object. The message holds its first bytes."""


class StatusCause(NamedTuple):
    """One fault of several in a refused request."""

    field: str
    reason: str
    message: str


class StatusError(ClientError):
    """The server refused, in the API's ``Status`` form."""

    def __init__(
        self,
        code: int,
        reason: str,
        detail: str,
        *,
        call: AnyCall | None = None,
        causes: tuple[StatusCause, ...] = (),
        retry_after: float | None = None,
        is_web_page: bool = False,
    ) -> None:
        super().__init__(detail, call=call)
        self.code = code
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after
        self.is_web_page = is_web_page
        """The body was HTML, so the answer did not come from an API server."""

    @property
    def message(self) -> str:
        return str(self)


class NotFound(StatusError): ...


class NotServed(StatusError): ...


class AlreadyExists(StatusError): ...


class Conflict(StatusError): ...


class Expired(StatusError): ...


class Invalid(StatusError): ...


class Unauthorized(StatusError): ...


class Forbidden(StatusError): ...


class NamespaceTerminating(Forbidden): ...


class Unsupported(StatusError): ...


class Throttled(StatusError): ...


class ServerError(StatusError): ...


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


def error_for(code: int, body: bytes, *, call: AnyCall, retry_after: str = "") -> ClientError:
    """The error for a response to ``call`` with this code."""
    status = _status_of(body)
    text = _text(status, "message") if status else body[:200].decode("utf-8", "replace").strip()
    detail = text or "no body"
    if code in (502, 503, 504):
        # A ResourceVersionTooLarge answer is a 504 too; to wait and read again is right there.
        return Unavailable(detail, call=call, status_code=code)
    reason = _text(status, "reason") if status else ""
    kind = _BY_CODE.get(code, ServerError)
    details = _details(status)
    if code == 404 and not details.get("name"):
        # The path itself, hence the kind, is unknown: "404 page not found" in plain text where
        # custom kinds live, elsewhere a Status that names no object. Only a 404 that names
        # what is missing is evidence of absence.
        kind, reason = NotServed, "NotServed"
    elif code == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    causes = _causes(details)
    if code == 403 and any(cause.reason == "NamespaceTerminating" for cause in causes):
        kind = NamespaceTerminating
    return kind(
        code,
        reason,
        detail,
        call=call,
        causes=causes,
        retry_after=parse_retry_after(retry_after)
        or parse_retry_after(details.get("retryAfterSeconds"))
        or None,
        is_web_page=status is None and body.lstrip().startswith(b"<"),
    )


def error_for_event(body: bytes, *, call: AnyCall) -> ClientError:
    """The error for an ``ERROR`` event of a watch: the code is in its ``Status``."""
    status = _status_of(body)
    code = status.get("code") if status else None
    # Without a code it is the server's fault.
    return error_for(code if isinstance(code, int) else 500, body, call=call)


def _status_of(body: bytes) -> dict[str, Any] | None:
    try:
        status = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return status if isinstance(status, dict) and status.get("kind") == "Status" else None


def _text(values: dict[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _details(status: dict[str, Any] | None) -> dict[str, Any]:
    details = status.get("details") if status else None
    return details if isinstance(details, dict) else {}


def _causes(details: dict[str, Any]) -> tuple[StatusCause, ...]:
    causes = details.get("causes")
    return tuple(
        StatusCause(_text(cause, "field"), _text(cause, "reason"), _text(cause, "message"))
        for cause in (causes if isinstance(causes, list) else ())
        if isinstance(cause, dict)
    )


def parse_retry_after(value: Any) -> float:  # a header's text, or whatever the JSON held
    """Seconds of a ``Retry-After``, or 0."""
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):  # absent, or an HTTP date, which no API server sends
        return 0.0
