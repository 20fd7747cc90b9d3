"""The parts of a server's URL.

The usual form, ``https://host:port/path`` in lower case, is parsed by hand, which saves short
commands the import of ``urllib``; anything else goes to the standard library.
"""

from __future__ import annotations

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_HOST = _LETTERS | frozenset(".-")
_PATH = _LETTERS | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ.-_~/")
_PORTS = {"http": 80, "https": 443}


class ServerUrl:
    """Absent parts are empty; the port defaults to that of the scheme."""

    __slots__ = ("authority", "host", "path", "port", "rest", "scheme", "user")

    def __init__(
        self, scheme: str, authority: str, host: str, port: int, path: str, user: str, rest: str
    ) -> None:
        self.scheme = scheme
        self.authority = authority
        self.host = host
        """Without brackets, in lower case."""
        self.port = port
        self.path = path
        self.user = user
        """What comes before an ``@``."""
        self.rest = rest
        """Query and fragment."""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def is_server(self) -> bool:
        """Whether it has nothing but a scheme, a server and a path."""
        known = self.scheme in _PORTS and bool(self.host)
        return known and not self.user and "@" not in self.authority and not self.rest


def parse(url: str) -> ServerUrl:
    """Raises ValueError for an invalid URL, such as one whose port is not a number."""
    scheme, mark, after = url.partition("://")
    authority, slash, path = after.partition("/")
    host, colon, port = authority.partition(":")
    usual = mark and scheme in _PORTS and host and _HOST.issuperset(host) and _PATH.issuperset(path)
    if not usual or (colon and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536)):
        return _parse_by_library(url)
    return ServerUrl(
        scheme, authority, host, int(port) if colon else _PORTS[scheme], slash + path, "", ""
    )


def _parse_by_library(url: str) -> ServerUrl:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = _PORTS.get(parts.scheme, 0) if parts.port is None else parts.port
    if port == 0 and parts.port is not None:
        raise ValueError("port 0 is invalid")
    user = parts.username or parts.password or ""
    rest = parts.query + parts.fragment
    return ServerUrl(parts.scheme, parts.netloc, parts.hostname or "", port, parts.path, user, rest)
