"""Why no response came: a malformed one, or an exception of sockets and TLS."""

from __future__ import annotations

from datum_compute.client.errors import Fault

MAX_HEAD = 64 * 1024
"""Bytes of a status line with its headers, or of all trailers. Servers send a few hundred."""


class MalformedResponse(Exception):
    """The bytes are not HTTP, break one of its limits, or the body does not decompress."""


def fault_of(error: BaseException) -> Fault | None:
    """The most specific fault among an exception and its causes; None for others."""
    # Imported only for a failure: a plain read over HTTP needs neither.
    import socket
    import ssl

    faults = (
        (ssl.SSLCertVerificationError, Fault.CERTIFICATE_UNTRUSTED),
        (ssl.SSLError, Fault.NOT_TLS),
        (ConnectionRefusedError, Fault.REFUSED),
        (socket.gaierror, Fault.NAME_UNKNOWN),
        (TimeoutError, Fault.TIMED_OUT),
    )
    chain = list(_chain(error))
    for kind, fault in faults:
        if any(isinstance(each, kind) for each in chain):
            return fault
    return None


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    following: BaseException | None = error
    while following is not None:
        found.append(following)
        following = following.__cause__ or following.__context__
    return found
