"""Text that is safe to print on a terminal, whatever the server put in it.

Names, labels, messages and log lines come from others. A control character or an escape sequence
in them could move the cursor, rewrite what is shown or change the terminal's title. Everything
that is printed for people passes :func:`printable`; colours of our own are marks until then.
"""

from __future__ import annotations

import re

GREEN, YELLOW, RED, PLAIN = "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd0"
"""Marks for a colour. Unicode reserves these code points for use inside a program."""
_SEQUENCES = {GREEN: "\x1b[32m", YELLOW: "\x1b[33m", RED: "\x1b[31m", PLAIN: "\x1b[0m"}

_COLOUR_SEQUENCE = re.compile("\x1b\\[[0-9;:]*m")
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, without tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # these change the direction of a line
    "\ufdd0-\ufdd3]"
)


def printable(text: str) -> str:
    """``text`` without colours, and with each other control character written as an escape such
    as ``\\x1b``. Tabs and newlines stay."""
    if _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(_escape, _COLOUR_SEQUENCE.sub("", text))


def without_marks(text: str) -> str:
    return re.sub(f"[{PLAIN}-{RED}]", "", text)


def printable_with_colours(text: str) -> str:
    """The same as :func:`printable`, with the marks in ``text`` as the terminal's colours. Cells
    that others wrote have passed :func:`printable` before they were marked, and messages
    :func:`without_marks`."""
    parts = re.split(f"([{PLAIN}-{RED}])", text)
    return "".join(_SEQUENCES.get(part) or printable(part) for part in parts)


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")
