"""The lines that instances have written, merged by time while they are read.

Each instance is read in parts, and only the next line of each is compared: a log may be larger
than the memory, and its first lines are shown at once. The lines of one instance keep their order;
one without a time, or with an earlier one than the line before, counts as of that line's time.

The server disconnects a client that takes nothing for a minute, as happens to an instance whose
lines are all later than many of another, or when the output is not read. Such an instance is read
again from its last line on.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from datum_compute.client import errors

OVERLAP_SECONDS = 5.0
"""How far a second read overlaps the first: clocks differ. A guess."""

TimedLine = tuple[datetime, str]
NamedLine = tuple[datetime, str, str]
"""A time, the name of an instance, and a text."""
_Ordered = tuple[datetime, TimedLine]
"""A line behind the time by which it is merged."""


class PastLines:
    """The lines of one instance, as far as they were there when they were asked for."""

    def __init__(
        self,
        open_parts: Callable[[float | None, int | None], Iterator[bytes]],
        parse: Callable[[str], TimedLine],
        now: Callable[[], datetime],
        *,
        since: float | None,
        tail: int | None,
    ) -> None:
        """``open_parts`` reads the lines of the last so many seconds, the last so many of them."""
        self._open = open_parts
        self._parse = parse
        self._now = now
        self._since = since
        self._tail = tail
        self._taken = 0
        self._last: datetime | None = None
        self._of_last = 0
        """How many lines of the last time were taken."""

    def __iter__(self) -> Iterator[_Ordered]:
        """Raises ``ClientError``."""
        while True:
            taken = self._taken
            try:
                yield from self._read()
                return
            except (errors.Disconnected, errors.TimedOut):
                if self._taken == taken:  # not a matter of a reader that paused
                    raise

    def _read(self) -> Iterator[_Ordered]:
        after, skipped = self._last, self._of_last
        key: datetime | None = None
        for text in split_lines(self._parts()):
            line = self._parse(text)
            key = line[0] if key is None else max(key, line[0])
            if after is not None and key < after:
                continue
            if key == after and skipped > 0:
                skipped -= 1
                continue
            self._of_last = self._of_last + 1 if key == self._last else 1
            self._last = key
            self._taken += 1
            yield key, line
            if self._taken == self._tail:
                return

    def _parts(self) -> Iterator[bytes]:
        if self._last is None:
            return self._open(self._since, self._tail)
        return self._open((self._now() - self._last).total_seconds() + OVERLAP_SECONDS, None)


def split_lines(parts: Iterator[bytes]) -> Iterator[str]:
    """Only a newline ends a line; what is behind the last one is a line too."""
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


def merge(sources: Sequence[tuple[str, Iterator[_Ordered]]]) -> Iterator[NamedLine]:
    """By time; lines of the same time in the order of ``sources``, which have names."""
    heads: list[tuple[datetime, int, TimedLine]] = []

    def take(index: int) -> None:
        found = next(sources[index][1], None)
        if found is not None:
            heapq.heappush(heads, (found[0], index, found[1]))

    for index in range(len(sources)):
        take(index)
    while heads:
        _, index, (when, text) = heapq.heappop(heads)
        yield when, sources[index][0], text
        take(index)
