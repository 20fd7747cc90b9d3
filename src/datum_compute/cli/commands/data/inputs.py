"""The values that ``set`` is given: on the command line, in files, typed unseen, or on stdin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from datum_compute.cli.commands.data.kinds import DataKind
from datum_compute.cli.context import Context
from datum_compute.cli.errors import CommandError, Exit, usage
from datum_compute.cli.explain.suggestions import AddFlag, Remark
from datum_compute.decisions.references import LARGEST_SOURCE

_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
LINES = "-"
"""The argument that stands for lines ``KEY=VALUE`` on stdin."""


class Inputs(NamedTuple):
    values: dict[str, bytes]
    asked: tuple[str, ...] = ()
    """Keys whose values are typed, or read from stdin."""
    lines: bool = False
    """Whether stdin has lines ``KEY=VALUE``."""


def parse(kind: DataKind, entries: Sequence[str], files: Sequence[str]) -> Inputs:
    """What the arguments say. Files are read; stdin is not, and no question is asked."""
    values: dict[str, bytes] = {}
    asked: list[str] = []
    for key, value in [*map(_entry, (e for e in entries if e != LINES)), *_files(files)]:
        _check_key(key)
        if key in values or key in asked:
            raise usage(f'key "{key}" is given more than once')
        if value is None:
            asked.append(key)
        else:
            values[key] = value
    lines = LINES in entries
    if (lines or asked) and not kind.hidden:
        word = LINES if lines else asked[0]
        raise usage(f'"{word}": expected KEY=VALUE', AddFlag("--from-file", "[KEY=]FILE"))
    if lines and asked:
        raise usage(f'"{asked[0]}" and - would both be read from stdin')
    if not (values or lines or asked):
        raise usage("expected KEY=VALUE or --from-file", AddFlag("--from-file", "[KEY=]FILE"))
    return Inputs(values, tuple(asked), lines)


def read(context: Context, inputs: Inputs) -> dict[str, bytes]:
    """All values: those that are missing are typed at a terminal, or read from stdin."""
    values = dict(inputs.values)
    if inputs.lines:
        for key, value in _lines(context):
            if key in values:
                raise usage(f'key "{key}" is given more than once')
            values[key] = value
    elif inputs.asked and context.streams.interactive:
        values |= {key: _typed(context, key) for key in inputs.asked}
    elif inputs.asked:
        if len(inputs.asked) > 1:
            names = ", ".join(inputs.asked)
            raise usage(f"{names}: stdin can be only one value; - reads lines of KEY=VALUE")
        [key] = inputs.asked
        text = _stdin(context)
        if not text:  # most likely a script without it
            raise usage(f"{key}: stdin is empty", Remark(f"for an empty value, type {key}="))
        values[key] = text.removesuffix("\n").encode()
    return values


def _entry(entry: str) -> tuple[str, bytes | None]:
    key, assigned, value = entry.partition("=")
    return key, os.fsencode(value) if assigned else None


def _files(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for entry in files:
        key, named, path = entry.rpartition("=")
        yield key if named else os.path.basename(path), _content(path)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_SOURCE + 1)
    except OSError as error:
        raise usage(f"--from-file {path}: {error.strerror}") from error
    if len(content) > LARGEST_SOURCE:
        raise usage(f"--from-file {path}: {_too_much()}")
    return content


def _lines(context: Context) -> Iterator[tuple[str, bytes]]:
    if context.streams.interactive:
        context.say("Type lines of KEY=VALUE, which are not shown; end with an empty line.")
        lines: Iterator[str] = iter(lambda: context.ask("", hidden=True).rstrip("\n"), "")
    else:
        lines = iter(_stdin(context).splitlines())
    for number, line in enumerate(lines, 1):
        key, assigned, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not assigned:  # the line may be a value: it is not repeated
            raise usage(f"line {number} of stdin: expected KEY=VALUE")
        if not _is_key(key.strip()):
            raise usage(f"line {number} of stdin: {_KEY_RULE}")
        yield key.strip(), value.encode()


def _typed(context: Context, key: str) -> bytes:
    line = context.ask(f"Value of {key}: ", hidden=True)
    if not line:
        raise CommandError("declined", exit_code=Exit.DECLINED, code="Declined")
    return line.removesuffix("\n").encode()


def _stdin(context: Context) -> str:
    try:
        text = context.streams.stdin.read(LARGEST_SOURCE + 1)
    except UnicodeDecodeError:
        raise usage(
            "stdin: not UTF-8 text", Remark("put it in a file, and give it with --from-file")
        ) from None
    if len(text) > LARGEST_SOURCE:
        raise usage(f"stdin: {_too_much()}")
    return text


def _too_much() -> str:
    return f"larger than the limit of {LARGEST_SOURCE // 1024} KiB"


_KEY_RULE = 'a key has at most 253 letters, digits, "-", "_" and "."'


def _is_key(key: str) -> bool:
    return bool(_KEY.fullmatch(key)) and key not in (".", "..")


def _check_key(key: str) -> None:
    if not _is_key(key):
        raise usage(f'key "{key}": {_KEY_RULE}')
