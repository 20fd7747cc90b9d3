"""The HTTP server of our processes, around an application of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp

from datum_compute.assembly.manager import http_server
from datum_compute.assembly.manager.http_server import TlsFiles

RELOAD_SECONDS = 0.01


@asynccontextmanager
async def served(app: ASGIApp, tls: TlsFiles | None) -> AsyncIterator[int]:
    """The application is served at the port."""
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        http_server.serve(
            app,
            host="127.0.0.1",
            port=0,
            tls=tls,
            name="test",
            bound=bound.set_result,
            reload_seconds=RELOAD_SECONDS,
        )
    )
    try:
        yield await bound
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
