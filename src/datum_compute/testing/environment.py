"""An :class:`~datum_compute.env.Environment` that a seed determines.

:class:`SkewedEnvironment` is the same with a wrong wall clock. Timers are never skewed: they
belong to the event loop, which all processes of a simulation share.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random

from datum_compute.testing.loop import VirtualLoop

START = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedEnvironment:
    """Now is the start plus the loop's virtual time; random streams come from seed and name.

    On an ordinary loop the clock starts with the first call.
    """

    def __init__(
        self, seed: int = 0, start: datetime = START, *, variables: Mapping[str, str] | None = None
    ) -> None:
        self.seed = seed
        self.start = start
        self.fault_counts: Counter[str] = Counter()
        """How often each fault point was passed, with or without a hook."""
        self._variables = dict(variables or {})
        self._streams: dict[str, Random] = {}
        self._hooks: dict[str, list[Callable[[], None]]] = {}
        self._origin: float | None = None

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self._elapsed())

    def random(self, stream: str) -> Random:
        found = self._streams.get(stream)
        if found is None:
            # Not hash(): that differs from process to process.
            digest = hashlib.sha256(f"{self.seed}\0{stream}".encode()).digest()
            found = self._streams[stream] = Random(int.from_bytes(digest[:16], "big"))
        return found

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self.random("env.uid").getrandbits(128), version=4))

    def new_token(self) -> str:
        token = self.random("env.token").randbytes(32)
        return base64.urlsafe_b64encode(token).rstrip(b"=").decode()

    def variable(self, name: str) -> str | None:
        return self._variables.get(name)

    def variables(self) -> dict[str, str]:
        return dict(self._variables)

    def on_fault(self, name: str, hook: Callable[[], None]) -> None:
        """Call ``hook`` whenever the product passes this fault point; it may raise."""
        self._hooks.setdefault(name, []).append(hook)

    def fault(self, name: str) -> None:
        self.fault_counts[name] += 1
        for hook in tuple(self._hooks.get(name, ())):
            hook()

    def _elapsed(self) -> float:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return 0.0
        if isinstance(loop, VirtualLoop):
            return loop.time()
        now = loop.time()
        if self._origin is None:
            self._origin = now
        return now - self._origin


class SkewedEnvironment:
    """Another environment with a clock that is offset and runs too fast or too slow."""

    def __init__(
        self, env: SimulatedEnvironment, *, offset: float = 0.0, rate: float = 1.0
    ) -> None:
        self._env = env
        self._offset = timedelta(seconds=offset)
        self._rate = rate

    def now(self) -> datetime:
        true = self._env.now()
        return self._env.start + (true - self._env.start) * self._rate + self._offset

    def random(self, stream: str) -> Random:
        return self._env.random(stream)

    def new_uid(self) -> str:
        return self._env.new_uid()

    def new_token(self) -> str:
        return self._env.new_token()

    def variable(self, name: str) -> str | None:
        return self._env.variable(name)

    def variables(self) -> dict[str, str]:
        return self._env.variables()

    def fault(self, name: str) -> None:
        self._env.fault(name)
