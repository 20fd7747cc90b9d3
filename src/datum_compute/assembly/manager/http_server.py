"""What a manager offers to others over HTTP: each an ASGI application on a port of its own.

The port is bound first and told to whoever asked; then requests are answered until the
caller cancels. With TLS, the files are looked at every few seconds: a certificate that was
renewed on disk is shown to every connection made after that, and those that are open go on
with the one they began with. Files that do not fit together, as while a renewal has
replaced one and not yet the other, change nothing and are tried again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from datum_compute.log import get_logger

logger = get_logger(__name__)

Message = MutableMapping[str, Any]
"""One of ASGI's own: keys and values differ with its type."""
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

RELOAD_SECONDS = 10.0
"""Between two looks at the certificate's files. A guess: renewals come days before expiry."""
GRACE_SECONDS = 2
"""How long requests may take to end when the server goes down."""
BACKLOG = 256


class ServingError(Exception):
    """Cannot serve: the message names the server, the address or the file, and the cause."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    certificate: Path
    key: Path
    client_ca: Path | None = None
    """Whose certificates clients must show; None: clients need none."""

    @property
    def paths(self) -> tuple[Path, ...]:
        found = (self.certificate, self.key, self.client_ca)
        return tuple(path for path in found if path is not None)


class _Uvicorn(uvicorn.Server):
    """Uvicorn inside somebody else's process: signals and the main loop are not its business."""

    async def open(self, listener: socket.socket) -> None:
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets=[listener])

    async def close(self) -> None:
        self.config.timeout_graceful_shutdown = GRACE_SECONDS
        await self.shutdown()


async def serve(
    app: Application,
    *,
    host: str,
    port: int,
    tls: TlsFiles | None,
    name: str,
    bound: Callable[[int], None] | None = None,
    reload_seconds: float = RELOAD_SECONDS,
) -> None:
    """Serve ``app`` until cancelled. ``bound`` is told the port once connections are
    accepted, which is news when ``port`` is 0. Raises :class:`ServingError`."""
    listener = _listen(host, port, name)
    try:
        front = _Uvicorn(_config(app, tls, name))
        await front.open(listener)
        try:
            actual = listener.getsockname()[1]
            logger.info("serving", server=name, host=host, port=actual, tls=tls is not None)
            if bound is not None:
                bound(actual)
            if tls is None or front.config.ssl is None:
                await asyncio.get_running_loop().create_future()
            else:
                await _keep_current(front.config.ssl, tls, name, reload_seconds)
        finally:
            await front.close()
    finally:
        listener.close()


def _config(app: Application, tls: TlsFiles | None, name: str) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        proxy_headers=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        ssl_certfile=str(tls.certificate) if tls else None,
        ssl_keyfile=str(tls.key) if tls else None,
        ssl_ca_certs=str(tls.client_ca) if tls and tls.client_ca else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls and tls.client_ca else ssl.CERT_NONE,
    )
    try:
        if tls is not None:
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tls)
        config.load()
    except (OSError, ssl.SSLError) as error:
        assert tls is not None, "without TLS there is no file to read"
        files = ", ".join(map(str, tls.paths))
        raise ServingError(f"{name}: cannot use the certificate of {files}: {error}") from error
    return config


async def _keep_current(
    context: ssl.SSLContext, tls: TlsFiles, name: str, reload_seconds: float
) -> None:
    shown = _stamps(tls)
    tried: object = shown
    while True:
        await asyncio.sleep(reload_seconds)
        found = _stamps(tls)
        if found == shown:
            continue
        try:
            # A failed load leaves a context without a key: so a fresh one goes first.
            _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tls)
            _load(context, tls)
        except (OSError, ssl.SSLError) as error:
            if found != tried:
                logger.warning(
                    "certificate not reloaded",
                    server=name,
                    file=str(tls.certificate),
                    error=str(error),
                )
            tried = found
        else:
            shown = found
            logger.info("certificate reloaded", server=name)


def _load(context: ssl.SSLContext, tls: TlsFiles) -> None:
    """An authority that clients were trusted by stays one until the process ends; what is
    new in its file is trusted beside it."""
    context.load_cert_chain(tls.certificate, tls.key, password=_no_passphrase)
    if tls.client_ca is not None:
        context.load_verify_locations(tls.client_ca)


def _no_passphrase() -> str:
    """Asked for the passphrase of a key. The library would ask on the terminal, and wait."""
    raise ssl.SSLError("the key is protected by a passphrase: give one without")


def _stamps(tls: TlsFiles) -> tuple[tuple[int, int, int] | None, ...]:
    """What changes when the files do, also when they are links that now lead elsewhere."""
    return tuple(_stamp(path) for path in tls.paths)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _listen(host: str, port: int, name: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        cause = "another process has it" if error.errno == errno.EADDRINUSE else error.strerror
        raise ServingError(f"{name}: cannot listen on {host}:{port}: {cause}") from error
    listener.setblocking(False)
    return listener
