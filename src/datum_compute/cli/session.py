"""The one event loop and the one client of a command that writes or waits.

Between two calls of :meth:`Session.run` the loop is idle, so a prompt can block and Ctrl-C there is
an ordinary ``KeyboardInterrupt``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.client import ApiClient

if TYPE_CHECKING:
    from datum_compute.cli.context import Context, Runner

T = TypeVar("T")

PAGE = 500
"""Objects per request, as kubectl asks."""
LOOP_STEPS = 4
"""Steps of the loop until a connection that its server has closed is known to be closed: its
socket, TLS and the transport pass that on in one step each."""


class Session:
    """Opened by a command, closed by ``main``. Nothing is connected before the first run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._runner: Runner | None = None
        self._client: ApiClient | None = None
        self.reader = BlockingReader(self)
        self._warnings: set[str] = set()
        self.written: list[str] = []
        """The workloads that were changed: after that Ctrl-C only detaches."""
        self.work = "rollout"
        """What goes on without the command once that is written."""

    def run(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        """Run ``work`` on the loop, once the project's access is checked."""
        self._context.check_access()
        return self.call(work)

    def call(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        """:meth:`run` without the check."""

        async def with_client() -> T:
            if self._client is None:
                self._client = self._context.target.client()
                self._client.on_warning = self._warn
            else:
                for _ in range(LOOP_STEPS):
                    await asyncio.sleep(0)
            return await work(self._client)

        if self._runner is None:
            self._runner = self._context.reach.runner()
        return self._runner.run(with_client())

    def _warn(self, text: str) -> None:
        """Print a warning of the server: once, although a dry run and the write both have it."""
        shown = "".join(each if each.isprintable() else " " for each in text)
        if shown not in self._warnings:
            self._warnings.add(shown)
            self._context.say(f"Warning: {shown}")

    def say_detached(self) -> None:
        names = ", ".join(f'"{name}"' for name in self.written)
        self._context.say(
            f"\nDetached; the {self.work} of {names} goes on. See  "
            f"{self._context.command('status', self.written[0])}"
        )

    def close(self) -> None:
        if self._runner is None:
            return
        try:
            if self._client is not None:
                self._runner.run(self._client.close())
        finally:
            self._runner.close()


class BlockingReader:
    """What plain readers offer, over a session's client. Not for use on its loop."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]:
        return to_dict(self._session.call(lambda client: client.get(resource, name, namespace)))

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[dict[str, Any]]:
        """All pages. If the server drops the snapshot on the way, one full list instead."""

        async def pages(client: ApiClient) -> list[dict[str, Any]]:
            read = partial(
                client.list,
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
            )
            items: list[dict[str, Any]] = []
            token = ""
            while True:
                try:
                    page = await read(limit=PAGE, continue_token=token)
                except errors.Expired:
                    if not token:
                        raise
                    return [to_dict(item) for item in (await read()).items]
                items += [to_dict(item) for item in page.items]
                token = page.continue_token
                if not token:
                    return items

        return self._session.call(pages)

    def raw(self, path: str) -> bytes:
        return self._session.call(lambda client: client.raw(path))

    def stream(self, path: str) -> Iterator[bytes]:
        """In one part: commands with a session follow logs over its client."""
        return iter([self.raw(path)])


def to_dict(obj: Object) -> dict[str, Any]:
    """An object as plain JSON values, as plain readers return it."""
    value: dict[str, Any] = json.loads(obj.to_wire())
    return value
