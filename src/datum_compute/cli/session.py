"""What commands that write and wait have in common: flags, the loop, and Ctrl-C."""

from __future__ import annotations

import argparse
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from datum_compute.cli.context import Context

if TYPE_CHECKING:
    from datum_compute.client.client import ApiClient

T = TypeVar("T")

DEFAULT_TIMEOUT = "10m"
_DURATION = re.compile(r"^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$")


def parse_duration(text: str) -> float:
    """``45s``, ``10m``, ``1h30m``."""
    found = _DURATION.match(text)
    if not text or not found:
        raise argparse.ArgumentTypeError(f'"{text}" is not a duration such as 45s, 10m or 1h30m')
    hours, minutes, rest = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + rest)


def add_write_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_wait_flags(parser)


def add_wait_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="wait until it is done (default)",
    )
    parser.add_argument(
        "--timeout",
        type=parse_duration,
        default=parse_duration(DEFAULT_TIMEOUT),
        metavar="DURATION",
        help=f"how long to wait, e.g. 45s, 10m, 1h30m (default {DEFAULT_TIMEOUT})",
    )


def with_client(context: Context, work: Callable[[ApiClient], Awaitable[T]]) -> T:
    """Enter the event loop once, with a client that is closed behind it."""

    context.pass_gate()

    async def session() -> T:
        client = context.target.client()
        try:
            return await work(client)
        finally:
            await client.close()

    return context.reach.run(session())


class Detach:
    """Ctrl-C before anything was written is an interruption; after it, only a detach."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.written: list[str] = []
        """The workloads that were changed."""

    def run(self, work: Callable[[ApiClient], Awaitable[int]]) -> int:
        try:
            return with_client(self._context, work)
        except KeyboardInterrupt:
            if not self.written:
                raise
            names = ", ".join(f'"{name}"' for name in self.written)
            self._context.say(
                f"\nDetached. {names}: the platform goes on with it; see  "
                f"{self._context.command('status', self.written[0])}"
            )
            return 0
