"""Links that open the console once, and the sessions that they open.

Both are kept in memory only, by the hash of their secret, so that the time a lookup takes tells
nothing about it. A session holds the user's own token: whatever it reads or writes passes the API
server with the rights that the user has at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from datum_compute.apiserver.request.access import token_hash
from datum_compute.cli.explain.suggestions import Invocation
from datum_compute.env import Environment

LINK_LIFE = timedelta(minutes=1)
IDLE_LIFE = timedelta(hours=1)
"""How long a session lasts that no page uses. A guess: longer than a lunch break."""
MAX_LINKS = 64
MAX_SESSIONS = 16
"""Of a platform for one machine. Beyond it the session that was idle longest ends."""


@dataclass(frozen=True, slots=True)
class ConsoleGrant:
    """Who opened the console, on what, and whether changes are wanted."""

    token: str = field(repr=False)
    project: str
    allow_writes: bool
    invocation: Invocation
    """How the user calls the program, for command lines to copy."""


@dataclass
class ConsoleSession:
    grant: ConsoleGrant
    last_used: datetime


S = TypeVar("S", bound=ConsoleSession)


class Sessions(Generic[S]):
    def __init__(self, env: Environment) -> None:
        self._env = env
        self._links: dict[bytes, tuple[datetime, ConsoleGrant]] = {}
        self._sessions: dict[bytes, S] = {}

    def new_link(self, grant: ConsoleGrant) -> str:
        """The secret of a link, for one use within a minute."""
        code, now = self._env.new_token(), self._env.now()
        self._links = {key: each for key, each in self._links.items() if each[0] > now}
        while len(self._links) >= MAX_LINKS:
            del self._links[next(iter(self._links))]
        self._links[token_hash(code)] = now + LINK_LIFE, grant
        return code

    def redeem(self, code: str) -> ConsoleGrant | None:
        """None for a link that is unknown, used or expired."""
        ends, grant = self._links.pop(token_hash(code), (None, None))
        return grant if ends is not None and self._env.now() < ends else None

    def add(self, session: S) -> tuple[str, list[S]]:
        """The secret of the session, and the sessions that ended to make room for it."""
        ended = self.end_idle()
        while len(self._sessions) >= MAX_SESSIONS:
            oldest = min(self._sessions, key=lambda key: self._sessions[key].last_used)
            ended.append(self._sessions.pop(oldest))
        token = self._env.new_token()
        self._sessions[token_hash(token)] = session
        return token, ended

    def find(self, token: str) -> S | None:
        session = self._sessions.get(token_hash(token))
        now = self._env.now()
        if session is None or now - session.last_used > IDLE_LIFE:
            return None
        session.last_used = now
        return session

    def all(self) -> list[S]:
        return list(self._sessions.values())

    def end_idle(self) -> list[S]:
        """The sessions that were idle too long; they are forgotten."""
        now = self._env.now()
        idle = [k for k, each in self._sessions.items() if now - each.last_used > IDLE_LIFE]
        return [self._sessions.pop(key) for key in idle]
