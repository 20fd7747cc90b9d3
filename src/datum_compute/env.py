"""Everything that differs from run to run, as one injected object.

Wall clock, random streams, fresh ids, environment variables and fault points are read here and
nowhere else; a test walks the syntax tree of every other module and fails on any other use.
Monotonic time, sleeping and timeouts belong to the event loop, so a simulation that brings its own
loop and its own :class:`Environment` controls all of it.

Random streams are *named*: a new draw in one place does not shift the values another
place sees, so a recorded seed stays meaningful while the code around it changes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from random import Random

# Clock, randomness and ids are loaded on first use: the command line's help needs none of them,
# and loading them would take half its time.


class Environment(Protocol):
    """What a process reads of its surroundings, besides I/O."""

    def now(self) -> datetime:
        """The wall clock: aware, UTC, for timestamps people read. Never for durations."""

    def random(self, stream: str) -> Random:
        """The random stream of this name; the same name always gives the same stream."""

    def new_uid(self) -> str:
        """A fresh id in the form Kubernetes uses for ``metadata.uid``."""

    def new_token(self) -> str:
        """A fresh unguessable secret, safe in a URL and in a header."""

    def variable(self, name: str) -> str | None:
        """The environment variable of this name, or None when it is not set."""

    def variables(self) -> dict[str, str]:
        """All variables, for handing on to a child process."""

    def fault(self, name: str) -> None:
        """A named point at which a simulation may interrupt; does nothing in production."""


class SystemEnvironment:
    """The environment of a real process."""

    def __init__(self) -> None:
        self._streams: dict[str, Random] = {}
        self._clock: Callable[[], datetime] | None = None

    def now(self) -> datetime:
        if self._clock is None:
            from datetime import UTC, datetime

            self._clock = lambda: datetime.now(UTC)
        return self._clock()

    def random(self, stream: str) -> Random:
        from random import Random

        return self._streams.setdefault(stream, Random())

    def new_uid(self) -> str:
        # As uuid4, in a third of the time.
        bits = int.from_bytes(os.urandom(16)) & _UUID_MASK | _UUID_VERSION
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def new_token(self) -> str:
        import secrets

        return secrets.token_urlsafe(32)

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def variables(self) -> dict[str, str]:
        return dict(os.environ)

    def fault(self, name: str) -> None:
        return None


_UUID_VERSION = 0x00000000_0000_4000_8000_000000000000
_UUID_MASK = 0xFFFFFFFF_FFFF_0FFF_3FFF_FFFFFFFFFFFF
"""A random uuid: version 4 of the variant of RFC 9562."""
