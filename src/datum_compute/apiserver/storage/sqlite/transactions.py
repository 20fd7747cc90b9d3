"""The transactions of a store on its file, and what follows where one fails.

One that meets a full disk leaves the file as it was. Where memory is ahead of the file it is tried
again until there is room. After any other error the store is broken: the end of the file is not
certain any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import apsw

from datum_compute.apiserver.storage.protocol import StoreBroken, StoreFull
from datum_compute.apiserver.storage.sqlite.log_file import LogFile
from datum_compute.env import Environment
from datum_compute.log import get_logger

ROOM_SECONDS = 1.0
"""How often a transaction is tried again while the disk is full."""

_log = get_logger(__name__)


class Transactions:
    """``failed`` is called with the error for whoever waits for a commit, ``resumed`` when
    there is room again."""

    def __init__(
        self,
        env: Environment,
        file: LogFile,
        failed: Callable[[StoreFull | StoreBroken], None],
        resumed: Callable[[], None],
    ) -> None:
        self._env = env
        self._file = file
        self._failed = failed
        self._resumed = resumed
        self.broken: StoreBroken | None = None
        self._room: asyncio.Future[None] | None = None
        """Done when the transaction that met a full disk is committed."""
        self._retry: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether the next one may be run: the store is not broken, and none waits for room."""
        return self.broken is None and self._room is None

    def check(self) -> None:
        if self.broken is not None:
            raise StoreBroken(str(self.broken))

    def check_open(self) -> None:
        self.check()
        if self._room is not None:
            raise StoreFull("the disk is full")

    async def wait_for_room(self) -> None:
        if self._room is not None:
            await asyncio.shield(self._room)
        self.check()

    def run(self, purpose: str, write: Callable[[], None]) -> None:
        """Commit what ``write`` does to the file. Raises StoreFull with the file as it was; after
        any other error the store is broken."""
        try:
            self._file.begin()
            write()
            self._env.fault(f"store.before-{purpose}")
            self._file.commit()
            self._env.fault(f"store.after-{purpose}")
        except apsw.FullError as error:
            self._file.rollback()
            raise StoreFull(str(error)) from error
        except BaseException as error:
            self._break(error)
            raise

    def run_surely(
        self, purpose: str, write: Callable[[], None], done: Callable[[], None] = lambda: None
    ) -> None:
        """As above where memory is ahead of the file: what meets a full disk is tried again until
        there is room, and nothing else is written before it."""
        try:
            self.run(purpose, write)
        except StoreFull as error:
            if self._room is None:
                _log.error("the disk is full; nothing is stored until there is room")
                self._room = asyncio.get_running_loop().create_future()
            self._failed(error)
            self._retry = asyncio.get_running_loop().call_later(
                ROOM_SECONDS, self._try_again, purpose, write, done
            )
            raise
        if self._room is not None:
            _log.info("the disk has room again")
            self._room.set_result(None)
            self._room = None
        done()

    def _try_again(self, purpose: str, write: Callable[[], None], done: Callable[[], None]) -> None:
        with suppress(StoreFull):
            self.run_surely(purpose, write, done)
            self._resumed()

    def _break(self, error: BaseException) -> None:
        self.broken = StoreBroken(f"a commit failed: {error!r}")
        self._file.rollback()
        if self._room is not None:
            self._room.set_result(None)
        self._failed(self.broken)

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
