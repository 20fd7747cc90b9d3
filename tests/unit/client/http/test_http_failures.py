"""Every error of the libraries below has a place in our tree."""

from __future__ import annotations

import inspect
import socket
import ssl
from typing import Any

import aiohttp
import pytest
from aiohttp import client_exceptions
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from datum_compute.client import errors
from datum_compute.client.http.transport import failure_for

KEY = ConnectionKey("example.com", 443, True, True, None, None, None)
REQUEST = aiohttp.RequestInfo(URL("https://example.com"), "GET", CIMultiDictProxy(CIMultiDict()))
OS_ERROR = OSError(5, "it broke")
CERTIFICATE = ssl.SSLCertVerificationError(1, "it is untrusted")

ARGUMENTS: dict[type[Exception], tuple[Any, ...]] = {
    aiohttp.ClientResponseError: (REQUEST, ()),
    aiohttp.ClientConnectorError: (KEY, OS_ERROR),
    client_exceptions.UnixClientConnectorError: ("/socket", KEY, OS_ERROR),
    aiohttp.ClientConnectorCertificateError: (KEY, CERTIFICATE),
    aiohttp.ServerFingerprintMismatch: (b"a", b"b", "example.com", 443),
    aiohttp.InvalidURL: ("nowhere",),
    aiohttp.NonHttpUrlClientError: ("nowhere",),
}

BEFORE_SENDING = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ServerFingerprintMismatch,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
)

ALL = [
    value
    for _, value in sorted(vars(client_exceptions).items())
    if inspect.isclass(value) and issubclass(value, aiohttp.ClientError)
]


def made(kind: type[Exception]) -> Exception:
    for base in kind.__mro__:
        if base in ARGUMENTS:
            return kind(*ARGUMENTS[base])
    return kind("it broke")


def expected(kind: type[Exception]) -> type[errors.TransportFailure]:
    if issubclass(kind, BEFORE_SENDING):
        return errors.ConnectFailed
    if issubclass(kind, TimeoutError):
        return errors.TimedOut
    return errors.Disconnected


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_each_error_of_the_library_is_mapped(kind: type[Exception]) -> None:
    failure = failure_for(made(kind))

    assert type(failure) is expected(kind)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), errors.TimedOut),
        (ConnectionResetError(104, "reset"), errors.Disconnected),
        (BrokenPipeError(32, "broken pipe"), errors.Disconnected),
        (ssl.SSLError(1, "bad record"), errors.Disconnected),
        (socket.gaierror(-2, "unknown name"), errors.ConnectFailed),
        (OSError(5, "it broke"), errors.Disconnected),
    ],
)
def test_errors_below_the_library_are_mapped_too(error: Exception, kind: type[Exception]) -> None:
    assert type(failure_for(error)) is kind


def test_a_failure_always_has_a_text() -> None:
    for kind in ALL:
        error = made(kind)
        if not isinstance(error, TimeoutError):
            assert str(failure_for(error))
