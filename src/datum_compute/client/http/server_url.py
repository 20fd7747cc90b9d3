"""The parts of a server's URL.

The usual form, ``https://host:port/path`` in plain lower-case letters, is taken apart by hand;
anything else goes to the standard library, which a plain read is quicker without.
"""

from __future__ import annotations

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_HOST = _LETTERS | frozenset(".-")
_PATH = _LETTERS | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ.-_~/")
_PORTS = {"http": 80, "https": 443}


class ServerUrl:
    """What a URL says; parts it does not name are empty, and then the port is its scheme's."""

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
        """What stands before an ``@``."""
        self.rest = rest
        """Query and fragment."""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def is_server(self) -> bool:
        """Whether it names a server and at most a path on it: nothing would be dropped."""
        known = self.scheme in _PORTS and bool(self.host)
        return known and not self.user and "@" not in self.authority and not self.rest


def parse(url: str) -> ServerUrl:
    """Raises ValueError for what is no URL, such as one whose port is no number."""
    scheme, mark, after = url.partition("://")
    authority, slash, path = after.partition("/")
    host, colon, port = authority.partition(":")
    usual = mark and scheme in _PORTS and host and _HOST.issuperset(host) and _PATH.issuperset(path)
    if not usual or (colon and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536)):
        return _split_by_library(url)
    return ServerUrl(
        scheme, authority, host, int(port) if colon else _PORTS[scheme], slash + path, "", ""
    )


def _split_by_library(url: str) -> ServerUrl:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = _PORTS.get(parts.scheme, 0) if parts.port is None else parts.port
    if port == 0 and parts.port is not None:
        raise ValueError("port 0 is none")
    user = parts.username or parts.password or ""
    rest = parts.query + parts.fragment
    return ServerUrl(parts.scheme, parts.netloc, parts.hostname or "", port, parts.path, user, rest)
