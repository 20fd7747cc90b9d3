"""HTTP requests, each on a connection of its own, and what became of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

TIMEOUT_SECONDS = 90.0
"""Longer than a waking and the router's own limit together, so that their answers are seen."""


@dataclass(frozen=True)
class Outcome:
    status: int
    """0 where there was no whole answer; ``text`` is then why."""
    text: str
    seconds: float


@dataclass(frozen=True)
class Target:
    address: str
    port: int
    host: str
    """The name for the header Host."""


async def fetch(target: Target, method: str = "GET", body: bytes = b"") -> Outcome:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            status, text = await _fetch(target, method, body)
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        status, text = 0, type(error).__name__
    return Outcome(status, text, time.perf_counter() - started)


async def _fetch(target: Target, method: str, body: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(target.address, target.port)
    try:
        length = f"content-length: {len(body)}\r\n" if body else ""
        head = f"{method} / HTTP/1.1\r\nhost: {target.host}\r\n{length}connection: close\r\n\r\n"
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        sizes = [line.partition(":")[2] for line in lines if line.startswith("content-length:")]
        found = await (reader.readexactly(int(sizes[0])) if sizes else reader.read())
        return int(lines[0].split(" ")[1]), found.decode(errors="replace")
    finally:
        writer.close()


async def run_at_rate(target: Target, per_second: float, seconds: float) -> list[Outcome]:
    """Requests at fixed times, whether or not earlier ones have ended."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    tasks = []
    for number in range(int(per_second * seconds)):
        await asyncio.sleep(started + number / per_second - loop.time())
        tasks.append(loop.create_task(fetch(target)))
    return list(await asyncio.gather(*tasks))


async def run_workers(
    workers: int, take: Callable[[], bool], send: Callable[[], asyncio.Future[Outcome]]
) -> list[Outcome]:
    """Each worker sends one request after the other, while ``take`` says there is one."""
    found: list[Outcome] = []

    async def work() -> None:
        while take():
            found.append(await send())

    await asyncio.gather(*(work() for _ in range(workers)))
    return found
