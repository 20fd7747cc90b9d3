"""Suggestions of what to try next: records, rendered where they are printed.

A suggested command names the program as the user typed it and repeats the user's target flags
(``--project``, ``--data-dir`` and the like), so that it can be pasted as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Command(NamedTuple):
    """A command of this program, without the program's name. Upper-case words are for the user
    to replace."""

    words: tuple[str, ...]


class AddFlag(NamedTuple):
    """A flag to add to the command that was typed, or to give another value."""

    flag: str
    value: str = ""


class OtherProgram(NamedTuple):
    words: tuple[str, ...]


class Remark(NamedTuple):
    text: str


Suggestion = Command | AddFlag | OtherProgram | Remark


def command(*words: str) -> Command:
    return Command(words)


REPEATED_FLAGS = (
    "--project",
    "--server",
    "--token",
    "--token-file",
    "--kubeconfig",
    "--context",
    "--certificate-authority",
    "--data-dir",
)
"""Flags that select the target. The value of ``--token`` is never repeated."""


class Invocation(NamedTuple):
    """How this program was called: its name as typed, and the flags to repeat."""

    program: str
    flags: tuple[tuple[str, str], ...] = ()
    local_directory: Callable[[], str] = str
    """Gives the state directory of the context in use, or nothing: ``local`` commands follow no
    context."""

    @classmethod
    def of(cls, program: str, argv: Sequence[str]) -> Invocation:
        """From the words typed, whether or not they parse."""
        found: dict[str, str] = {}
        words = iter(argv)
        for word in words:
            if word == "--":
                break
            flag, equals, value = word.partition("=")
            if flag in REPEATED_FLAGS:
                value = value if equals else next(words, "")
                found[flag] = "TOKEN" if flag == "--token" and value else value
        return cls(program, tuple((flag, value) for flag, value in found.items() if value))

    def render(self, suggestion: Suggestion) -> str:
        match suggestion:
            case Command(words):
                return " ".join([self.program, *map(_quoted, (*words, *self._repeated(words)))])
            case AddFlag(flag, value):
                return f"{flag} {_quoted(value)}" if value else flag
            case OtherProgram(words):
                return " ".join(map(_quoted, words))
            case Remark(text):
                return text

    def _repeated(self, words: tuple[str, ...]) -> list[str]:
        if words[-1] == "--help" or (words[0] == "context" and words[1] != "show"):
            return []
        known: tuple[str, ...] = REPEATED_FLAGS
        if words[0] == "local":  # local commands take no server, and only three of them a project
            about_project = words[1] in ("up", "kubeconfig", "user")
            known = ("--data-dir", "--project") if about_project else ("--data-dir",)
        flags = self.flags
        if words[0] == "local" and (directory := self.local_directory()):
            flags = (*flags, ("--data-dir", directory))
        return [
            text
            for flag, value in flags
            if flag in known and flag not in words
            for text in (flag, value)
        ]


def _quoted(word: str) -> str:
    if word and all(each.isascii() and (each.isalnum() or each in "@%+=:,./-_") for each in word):
        return word
    import shlex  # rarely needed, and slow to load

    return shlex.quote(word)
