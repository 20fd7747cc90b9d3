"""Serves a manager's endpoints: one ASGI application on each port.

The port is bound first; then requests are answered until the caller cancels. With TLS, the
files are checked every few seconds: a certificate renewed on disk is served on every new
connection, and open connections keep theirs. Files that do not match, as in the middle of a
renewal, are ignored and tried again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from datum_compute.log import get_logger
from datum_compute.runtime.tasks import TaskGroup

logger = get_logger(__name__)

RELOAD_SECONDS = 10.0
"""Between two checks of the certificate's files. A guess: renewals come days before expiry."""
GRACE_SECONDS = 2
"""How long open requests may take to end when the server stops."""
BACKLOG = 256


class ServingError(Exception):
    """Cannot serve: the message names the server, the address or the file, and the cause."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    certificate: Path
    key: Path
    client_ca: Path | None = None
    """The authority of client certificates; None: clients need no certificate."""

    @property
    def paths(self) -> tuple[Path, ...]:
        found = (self.certificate, self.key, self.client_ca)
        return tuple(path for path in found if path is not None)


class _EmbeddedServer(uvicorn.Server):
    """Uvicorn as a task of another program, which handles the signals itself."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self.stopping = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    async def main_loop(self) -> None:
        """Uvicorn's own looks ten times a second, for the date header and limits, whether to stop;
        there are none here."""
        await self.on_tick(0)
        await self.stopping.wait()


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    tls: TlsFiles | None,
    name: str,
    bound: Callable[[int], None] | None = None,
    reload_seconds: float = RELOAD_SECONDS,
) -> None:
    """Serve ``app`` until cancelled. ``bound`` is called with the port once connections are
    accepted. Raises :class:`ServingError`."""
    config = _config(app, tls, name)
    listener = _listen(host, port, name)
    actual = listener.getsockname()[1]
    server = _EmbeddedServer(config)
    async with TaskGroup(name) as tasks:
        serving = tasks.start(server.serve(sockets=[listener]), name=name)
        try:
            await server.accepting.wait()
            logger.info("serving", server=name, host=host, port=actual, tls=tls is not None)
            if bound is not None:
                bound(actual)
            if tls is None or config.ssl is None:
                await asyncio.wait([serving])
            else:
                await _keep_current(config.ssl, tls, name, reload_seconds)
        finally:
            server.stopping.set()
            try:
                await asyncio.wait([serving])  # open requests may end
            finally:
                listener.close()


def _config(app: ASGIApp, tls: TlsFiles | None, name: str) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        proxy_headers=False,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
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
    loaded = _stamps(tls)
    tried: object = loaded
    while True:
        await asyncio.sleep(reload_seconds)
        found = _stamps(tls)
        if found == loaded:
            continue
        try:
            # A failed load leaves a context without a key, so the files are tried on a fresh one
            # first.
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
            loaded = found
            logger.info("certificate reloaded", server=name)


def _load(context: ssl.SSLContext, tls: TlsFiles) -> None:
    """Adds the authorities of the file: one that was trusted before stays trusted until the
    process ends."""
    context.load_cert_chain(tls.certificate, tls.key, password=_no_passphrase)
    if tls.client_ca is not None:
        context.load_verify_locations(tls.client_ca)


def _no_passphrase() -> str:
    """Refuses an encrypted key: OpenSSL would prompt on the terminal and wait."""
    raise ssl.SSLError("the key is protected by a passphrase: use one without")


def _stamps(tls: TlsFiles) -> tuple[tuple[int, int, int] | None, ...]:
    """Differ when the files do, including symbolic links with a new target."""
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
        cause = "another process uses it" if error.errno == errno.EADDRINUSE else error.strerror
        raise ServingError(f"{name}: cannot listen on {host}:{port}: {cause}") from error
    listener.setblocking(False)
    return listener
