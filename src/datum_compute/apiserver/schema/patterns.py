"""Regular expressions as CustomResourceDefinitions write them.

They run on RE2, whose syntax and meaning the real server's engine shares: a search takes time in
proportion to the text, whatever the pattern, and look-around and back-references do not exist. So
a definition that is accepted here is accepted by a real server, and no pattern can stop the
process.
"""

from __future__ import annotations

import re

import re2


class Pattern:
    """A compiled pattern. Raises ValueError, saying why, when the real server refuses it."""

    __slots__ = ("_regexp", "_set")

    def __init__(self, pattern: str) -> None:
        if r"\C" in _LITERALS.sub("", pattern):  # a single byte, which only RE2 knows
            raise ValueError(r"error parsing regexp: invalid escape sequence: `\C`")
        try:
            self._regexp = re2.compile(pattern.encode(), _OPTIONS)
        except re2.error as error:
            text = error.args[0]
            found = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
            raise ValueError(f"error parsing regexp: {found}") from error
        # A set of one: it tells whether there is a match and no more, in a fiftieth of the time.
        self._set = re2.Set.SearchSet(_OPTIONS)
        self._set.Add(pattern.encode())
        self._set.Compile()

    def matches(self, text: str) -> bool:
        """Whether the pattern is found anywhere in the text."""
        # A set finds nothing when it runs out of memory, so what it does not find is looked for
        # once more.
        return bool(self._set.Match(text)) or self._regexp.search(text.encode()) is not None

    def find(self, text: str) -> str:
        """The first and leftmost match; empty if there is none."""
        found = self._regexp.search(text.encode())
        return found[0].decode() if found is not None else ""

    def find_all(self, text: str) -> list[str]:
        return [found[0].decode() for found in self._regexp.finditer(text.encode())]


_LITERALS = re.compile(r"\\Q.*?(?:\\E|\Z)|\\[^C]", re.DOTALL)
"""What may hold a ``\\C`` that is no such escape."""


def _options() -> re2.Options:
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False  # on standard error, past our log
    return options


_OPTIONS = _options()
