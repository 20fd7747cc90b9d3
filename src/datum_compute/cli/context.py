"""What a command is given: its streams, its environment, and where to talk to."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from functools import cached_property
from typing import TextIO

from datum_compute.cli.errors import PROGRAM, CommandError, Exit, called, usage
from datum_compute.cli.target import Target, find_target
from datum_compute.env import Environment


@dataclass(frozen=True)
class Streams:
    stdin: TextIO
    stdout: TextIO
    stderr: TextIO

    @property
    def interactive(self) -> bool:
        """Whether a person is there to answer a question."""
        return self.stdin.isatty() and self.stderr.isatty()


class Context:
    def __init__(
        self, env: Environment, streams: Streams, args: Namespace, program: str = PROGRAM
    ) -> None:
        """``program`` is what a person types to run us; commands that are suggested use it."""
        self.env = env
        self.program = program
        self.streams = streams
        self.args = args

    @cached_property
    def target(self) -> Target:
        return find_target(self.env, self.args)

    def say(self, text: str = "") -> None:
        """Talk: progress, reasons, next steps. Never data."""
        print(called(text, self.program), file=self.streams.stderr, flush=True)

    def show(self, text: str) -> None:
        """Data, and nothing but data."""
        print(text, file=self.streams.stdout, flush=True)

    def confirm(self, question: str, *, flag: str = "--yes") -> None:
        """Go on only after a yes; without a terminal refuse and name the flag."""
        if getattr(self.args, "yes", False):
            return
        if not self.streams.interactive:
            raise usage(f"there is no terminal to ask on: {question}", f"add {flag} to say yes")
        print(f"{question} [y/N] ", end="", file=self.streams.stderr, flush=True)
        if self.streams.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandError("declined", exit_code=Exit.DECLINED, code="Declined")
