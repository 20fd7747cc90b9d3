"""The models of a session, and the stream of what changes in them.

A model has the revision of the board at which it changed last. A stream sends what has changed
since the revision that its reader has: nothing is queued for a reader, so a slow one gets less
often what is then current, and costs no memory. A reader that comes back names the revision it
has (``Last-Event-ID``); one that the board has forgotten, or of another board, gets everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import msgspec

from datum_compute.cli.console.models import DETAILS
from datum_compute.env import Environment

MIN_SECONDS = 0.2
"""Between two messages of a stream. A guess: people see five changes a second as a movement."""
KEEP_ALIVE_SECONDS = 15.0
"""After which a message is sent though nothing changed, so that a lost connection is noticed."""
MAX_REMOVED = 10_000
"""Removed models that are remembered for readers that come back."""


class Board:
    def __init__(self, name: str) -> None:
        self.name = name
        """Tells this board from others in the ids of messages."""
        self.revision = 0
        self._models: dict[str, tuple[int, bytes]] = {}
        self._values: dict[str, Any] = {}
        """What the models were encoded from: the same object is not encoded again."""
        self._removed: dict[str, int] = {}
        self._forgotten = 0
        """What was removed up to this revision is not remembered."""
        self._moved = asyncio.Event()
        self.has_ended = False

    def end(self) -> None:
        """End the streams."""
        self.has_ended = True
        self._moved.set()

    def replace(self, models: Mapping[str, Any], owns: Callable[[str], bool]) -> None:
        """Set these models, and remove others whose key is owned."""
        encode, values = msgspec.json.encode, self._values
        new = {k: encode(v) for k, v in models.items() if k not in values or values[k] is not v}
        values.update((key, models[key]) for key in new)
        changed = {k: v for k, v in new.items() if self._models.get(k, (0, b""))[1] != v}
        gone = [key for key in self._models if owns(key) and key not in models]
        if not changed and not gone:
            return
        self.revision += 1
        for key in gone:
            del self._models[key], self._values[key]
            self._removed[key] = self.revision
        for key, value in changed.items():
            self._models[key] = self.revision, value
            self._removed.pop(key, None)
        while len(self._removed) > MAX_REMOVED:
            oldest = next(iter(self._removed))
            self._forgotten = max(self._forgotten, self._removed.pop(oldest))
        self._moved.set()
        self._moved = asyncio.Event()

    def changes(self, since: int, focus: str) -> dict[str, bytes]:
        """What changed since a revision, for a reader that looks at the details of ``focus``;
        removed models are null."""
        found = {
            key: value
            for key, (revision, value) in self._models.items()
            if revision > since and _is_seen(key, focus)
        }
        return found | {key: b"null" for key, at in self._removed.items() if at > since}

    def knows(self, since: int) -> bool:
        return self._forgotten <= since <= self.revision

    async def wait_after(self, revision: int, seconds: float) -> None:
        """Until the board has a later revision, or the time has passed."""
        if self.revision > revision:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._moved.wait()
        except TimeoutError:
            pass  # the caller says that it is still there


def _is_seen(key: str, focus: str) -> bool:
    group, _, name = key.partition("/")
    return group not in DETAILS or name == focus


def is_detail(key: str) -> bool:
    return key.partition("/")[0] in DETAILS


async def stream(
    env: Environment, board: Board, focus: str, last_event_id: str
) -> AsyncIterator[bytes]:
    """Messages of ``text/event-stream``: everything first, unless the reader has it."""
    name, _, number = last_event_id.partition(".")
    since = int(number) if name == board.name and number.isdecimal() else -1
    resumes = board.knows(since)
    since = since if resumes else 0
    sent = False
    await board.wait_after(0, KEEP_ALIVE_SECONDS)  # the project may not have been read yet
    while not board.has_ended:
        changes, revision = board.changes(since, focus), board.revision
        kind = "change" if resumes or sent else "snapshot"
        for chunk in _message(env, f"{board.name}.{revision}", kind, changes):
            yield chunk
        sent, since = True, revision
        await asyncio.sleep(MIN_SECONDS)
        await board.wait_after(since, KEEP_ALIVE_SECONDS)


CHUNK_BYTES = 32 * 1024


def _message(env: Environment, id: str, kind: str, changes: Mapping[str, bytes]) -> Iterable[bytes]:
    """One message in parts, so that a large one is never whole in memory twice."""
    head = f'id: {id}\nevent: {kind}\ndata: {{"now":"{env.now().isoformat()}","models":{{'
    part, size, separator = [head.encode()], 0, b""
    for key, value in changes.items():
        part.append(b"%b%b:%b" % (separator, msgspec.json.encode(key), value))
        separator = b","
        size += len(value)
        if size > CHUNK_BYTES:
            yield b"".join(part)
            part, size = [], 0
    yield b"".join((*part, b"}}\n\n"))
