"""Every place in the command line that raises an error, and the place of each error shown.

The places are read from the source. While a command runs, every error is recorded with the line
that creates it.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import datum_compute.cli
from datum_compute.cli import errors
from datum_compute.cli.errors import CommandError

SOURCES = Path(datum_compute.cli.__file__).parent
FACTORIES = errors.__file__
"""Where errors are defined: the place is the caller of these functions."""
MAKERS = frozenset({"CommandError", "usage", "not_found", "unknown", "ArgumentTypeError"})

Span = tuple[str, int, int]
"""A file, and the first and the last line of a place in it."""


@cache
def sites() -> dict[Span, str]:
    """Places that raise errors: ``module.function #2`` is the second place in a function."""
    found: dict[Span, str] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        # What the console answers a page is no screen of a command; its own tests have it.
        if str(path) == FACTORIES or path.is_relative_to(SOURCES / "console"):
            continue
        module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        found |= _sites_of(path, module)
    return found


def _sites_of(path: Path, module: str) -> dict[Span, str]:
    found: dict[Span, str] = {}
    counts: dict[str, int] = {}
    for function, call in _calls(ast.parse(path.read_text(encoding="utf-8")), module):
        counts[function] = counts.get(function, 0) + 1
        assert call.end_lineno is not None
        found[(str(path), call.lineno, call.end_lineno)] = f"{function} #{counts[function]}"
    return found


def _calls(node: ast.AST, within: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _calls(child, f"{within}.{child.name}")
            continue
        if isinstance(child, ast.Call):
            name = getattr(child.func, "id", getattr(child.func, "attr", ""))
            if name in MAKERS:
                yield within, child
        yield from _calls(child, within)


@dataclass(frozen=True)
class RecordedError:
    site: str
    text: str
    error: CommandError | None
    """None for what the argument parser makes one of."""


@dataclass
class ErrorRecorder:
    """Records every error that is created within the block."""

    made: list[RecordedError] = field(default_factory=list)
    _sites: dict[Span, str] = field(default_factory=sites)
    _before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is CommandError.__init__.__code__:
            self._note(frame)
            return None
        if not frame.f_code.co_filename.startswith(str(SOURCES)):
            return None
        frame.f_trace_lines = False
        return self._inside

    def _inside(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception" and issubclass(arg[0], argparse.ArgumentTypeError):
            site = self._site(frame.f_code.co_filename, arg[2].tb_lineno)
            if site:
                self.made.append(RecordedError(site, str(arg[1]), None))
        return self._inside

    def _note(self, frame: FrameType) -> None:
        maker: FrameType | None = frame.f_back
        while maker is not None and maker.f_code.co_filename == FACTORIES:
            maker = maker.f_back
        assert maker is not None
        site = self._site(maker.f_code.co_filename, maker.f_lineno)
        assert site, f"an error is made where none was found in the source: {maker}"
        made = frame.f_locals
        self.made.append(RecordedError(site, made["message"], made["self"]))

    def _site(self, path: str, line: int) -> str:
        for (where, first, last), site in self._sites.items():
            if where == path and first <= line <= last:
                return site
        return ""
