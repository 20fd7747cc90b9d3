"""The identity of a client, looked up at every request.

A credential has an identity cached or must fetch one, which may take a while: an exec
plugin is a program. When the server refuses it (401), the identity is invalidated and
fetched again, and the request repeated once if the identity is another: a 401 comes before
any effect, so even a write may be repeated.

Shared by the client and by the CLI's plain reader, so it imports nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from datum_compute.client import errors

if TYPE_CHECKING:
    from pathlib import Path


class ClientIdentity(NamedTuple):
    """Sent to a server. Both may be empty: then the client is anonymous."""

    token: str = ""
    certificate_pem: bytes = b""
    """Only to compare identities; the certificate itself is in the TLS context."""

    def __repr__(self) -> str:
        return "<Identity>"  # keeps credentials out of logs


class Credential(Protocol):
    def cached(self) -> ClientIdentity | None:
        """The identity while it is valid; None when it must be fetched."""

    async def fetch(self) -> ClientIdentity:
        """A fresh one. Raises ``CredentialFailed``."""

    def fetch_blocking(self) -> ClientIdentity:
        """The same for callers without an event loop."""

    def invalidate(self, identity: ClientIdentity) -> None:
        """A server refused this identity; do not return it from a cache again."""


TokenSource = str | Callable[[], str] | Credential
"""A token, a function that returns one, or a credential."""


def credential_of(source: TokenSource) -> Credential:
    if isinstance(source, str):
        return _FixedIdentity(ClientIdentity(source))
    if callable(source):
        return _TokenFunction(source)
    return source


class _FixedIdentity:
    def __init__(self, identity: ClientIdentity) -> None:
        self._identity = identity

    def cached(self) -> ClientIdentity:
        return self._identity

    async def fetch(self) -> ClientIdentity:
        return self._identity

    def fetch_blocking(self) -> ClientIdentity:
        return self._identity

    def invalidate(self, identity: ClientIdentity) -> None: ...


class _TokenFunction:
    """Called at every request, so there is nothing to invalidate."""

    def __init__(self, source: Callable[[], str]) -> None:
        self._source = source

    def cached(self) -> ClientIdentity:
        return ClientIdentity(self._source())

    async def fetch(self) -> ClientIdentity:
        return self.cached()

    def fetch_blocking(self) -> ClientIdentity:
        return self.cached()

    def invalidate(self, identity: ClientIdentity) -> None:
        if isinstance(self._source, TokenFile):
            self._source.forget()


class TokenFile:
    """A token in a file that is replaced before it expires; read again when it changes."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._stamp: tuple[int, ...] = ()
        self._token = ""

    def __call__(self) -> str:
        try:
            stat = os.stat(self._path)
            stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if stamp != self._stamp:
                self._token = self._read()
                self._stamp = stamp
        except (OSError, ValueError) as error:
            # The file is being replaced; the last token stays valid for a while.
            if not self._token:
                fault = error.strerror if isinstance(error, OSError) else error
                raise errors.CredentialFailed(
                    f"cannot read the token in {self._path}: {fault}"
                ) from error
        return self._token

    def forget(self) -> None:
        """Read the file again even if it seems unchanged."""
        self._stamp = ()

    def _read(self) -> str:
        with open(self._path, encoding="utf-8", errors="replace") as file:
            token = file.read().strip()
        if not token:
            raise ValueError("the file is empty")
        if not is_token(token):
            raise ValueError("it holds characters that cannot be part of a token")
        return token


def is_token(text: str) -> bool:
    """Whether it can be sent in a header without ending it."""
    return text.isascii() and text.isprintable()
