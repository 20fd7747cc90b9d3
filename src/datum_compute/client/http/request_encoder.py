"""A request as the bytes that go over the wire, in one piece.

A client sends nearly the same in every call, so headers and queries are remembered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, urlencode

from datum_compute.client.transport import HttpRequest

_PLAIN = re.compile(r"[A-Za-z0-9/._~:@-]*").fullmatch
_ENDS_A_LINE = re.compile(r"[\r\n\0]").search


class RequestEncoder:
    """Encodes the requests of one transport."""

    def __init__(self, always: Mapping[str, str], before_path: str = "") -> None:
        """``always`` are headers of every request; ``before_path`` is the origin, for a proxy
        that forwards requests."""
        self._before_path = before_path
        self._always = _lines(tuple(always.items()))

    def encode(self, request: HttpRequest) -> bytes:
        """Raises ValueError for a header that holds a line break."""
        target = self._before_path + _quoted(request.path)
        if request.query:
            target += "?" + _encoded(request.query)
        headers = self._always + _lines(tuple(request.headers.items()))
        if request.method == "GET":
            headers += "accept-encoding: gzip\r\n"  # lists are long
        if request.body or request.method not in ("GET", "HEAD"):
            headers += f"content-length: {len(request.body)}\r\n"
        return f"{request.method} {target} HTTP/1.1\r\n{headers}\r\n".encode() + request.body


@lru_cache(maxsize=256)
def _lines(headers: tuple[tuple[str, str], ...]) -> str:
    for name, value in headers:
        if _ENDS_A_LINE(name) or _ENDS_A_LINE(value):
            # Without the value: it may be a credential.
            raise ValueError(f"header {name[:60]!r} holds a line break or a NUL")
    return "".join(f"{name}: {value}\r\n" for name, value in headers)


def _quoted(path: str) -> str:
    if _PLAIN(path):  # nearly every path is, and quote() is slow
        return path
    return quote(path, safe="/:@!$&'()*+,;=~")


@lru_cache(maxsize=256)
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query)
