"""What a command runs with: streams, environment, arguments, and its platform."""

from __future__ import annotations

import io
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

from datum_compute.cli.errors import PROGRAM, CommandError, Exit, usage
from datum_compute.cli.explain.suggestions import AddFlag, Command, Invocation, Suggestion
from datum_compute.cli.render.printable import printable, printable_with_colours

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Coroutine, Iterator

    from datum_compute.api.scheme import Resource
    from datum_compute.cli.session import Session
    from datum_compute.client.client import ApiClient
    from datum_compute.env import Environment

T = TypeVar("T")


class Streams:
    """The standard streams, or replacements."""

    __slots__ = ("stderr", "stdin", "stdout")

    def __init__(self, stdin: TextIO, stdout: TextIO, stderr: TextIO) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = _Lossy.over(stderr, OSError)

    @property
    def interactive(self) -> bool:
        """Whether a user can answer a prompt."""
        return self.stdin.isatty() and self.stderr.isatty()

    def outlive_reader(self) -> None:
        """Drop what is written to stdout once its reader has closed it, as ``| head`` does."""
        self.stdout = _Lossy.over(self.stdout, BrokenPipeError)


class _Lossy(io.FileIO):
    """A file of the system's that drops what cannot be written to it any more."""

    def __init__(self, descriptor: int, dropped: type[OSError]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._dropped = dropped

    @staticmethod
    def over(stream: TextIO, dropped: type[OSError]) -> TextIO:
        """``stream``, where it is such a file, without the errors ``dropped``."""
        try:
            raw = _Lossy(stream.fileno(), dropped)
        except (OSError, ValueError):  # not a file of the system's
            return stream
        return io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=True,
        )

    # Any buffer: the type of those has a public name from Python 3.12 on.
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except self._dropped:
            return memoryview(data).nbytes


class PlainReader(Protocol):
    """Reads that block, with objects as plain JSON values. Raises ``ClientError``."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> dict[str, Any]: ...

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[dict[str, Any]]: ...

    def raw(self, path: str) -> bytes: ...

    def stream(self, path: str) -> Iterator[bytes]:
        """The same in parts, which are read as they are taken."""
        ...


class Runner(Protocol):
    """An event loop that is idle between runs, as :class:`asyncio.Runner` is one."""

    def run(self, coro: Coroutine[Any, Any, T]) -> T: ...

    def close(self) -> None: ...


class Destination(Protocol):
    """A project's control plane, and the ways to talk to it."""

    @property
    def project(self) -> str: ...

    @property
    def local_directory(self) -> str:
        """The state directory of a local platform on this machine; else empty."""
        return ""

    def reader(self) -> PlainReader:
        """For plain reads: synchronous, and quick to import."""

    def root(self) -> PlainReader | None:
        """For the root plane, which has the projects; None if it cannot be reached from here."""

    def client(self) -> ApiClient:
        """For commands that write or wait; the caller awaits its ``close``."""

    def root_client(self) -> ApiClient | None:
        """The same for the root plane; None if it cannot be reached from here."""


class Reach:
    """How a command connects to a platform and waits; tests replace it."""

    def find(self, env: Environment, args: Namespace) -> Destination:
        from datum_compute.cli.target import find_target

        return find_target(env, args)

    def runner(self) -> Runner:
        import asyncio

        return asyncio.Runner()

    def open_url(self, url: str) -> bool:
        """In the user's browser; False where there is none."""
        import webbrowser

        return webbrowser.open(url)

    def sleep(self, seconds: float) -> None:
        import select

        select.select([], [], [], seconds)


def _wait_for_line(stdin: TextIO) -> None:
    """Until a line was typed on a terminal. Where Ctrl-C comes right before ``readline`` begins to
    read, Python raises its exception only after a line."""
    if not stdin.isatty():
        return
    try:
        typed = stdin.fileno()
    except (OSError, ValueError):  # no terminal of the system's
        return
    import select
    import signal

    received, sent = os.pipe()
    os.set_blocking(sent, False)
    before = signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
    try:
        while typed not in select.select([typed, received], [], [])[0]:
            os.read(received, 64)  # the exception of a signal is raised here at the latest
    finally:
        signal.set_wakeup_fd(before)
        os.close(received)
        os.close(sent)


def _hide_input(stream: TextIO) -> Callable[[], None]:
    """Show nothing that is typed, until the returned function is called."""
    import termios

    try:
        terminal = stream.fileno()
    except (OSError, ValueError):  # no terminal of the system's
        return lambda: None
    before = termios.tcgetattr(terminal)
    hidden = [*before]
    hidden[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSAFLUSH, hidden)
    return lambda: termios.tcsetattr(terminal, termios.TCSADRAIN, before)


class Context:
    def __init__(
        self,
        env: Environment,
        streams: Streams,
        args: Namespace,
        invocation: Invocation | None = None,
        reach: Reach | None = None,
    ) -> None:
        self.env = env
        self.invocation = invocation or Invocation(PROGRAM)
        self.streams = streams
        self.args = args
        self.reach = reach or Reach()
        self.access_check: Callable[[Context], None] | None = None
        """Runs before the first request to the platform, after the command line is validated."""
        self.session: Session | None = None
        """Of a command that writes or waits."""
        self.following: list[list[str]] = []
        """Commands that run after this one has succeeded, as if a person typed them."""

    @cached_property
    def target(self) -> Destination:
        return self.reach.find(self.env, self.args)

    def check_access(self) -> None:
        check, self.access_check = self.access_check, None
        if check is not None:
            check(self)

    def open_session(self) -> Session:
        """For a command that writes or waits, before its first read: the access check and
        ``reader`` then use the session's connections."""
        from datum_compute.cli.session import Session

        if self.session is None:
            self.session = Session(self)
        return self.session

    def close(self) -> None:
        if self.session is not None:
            self.session.close()

    @property
    def reader(self) -> PlainReader:
        self.check_access()
        return self._reader if self.session is None else self.session.reader

    @cached_property
    def _reader(self) -> PlainReader:
        return self.target.reader()

    @property
    def tables(self) -> bool:
        """Whether the output is a table for people, with header and footer."""
        return self.args.output in ("table", "wide")

    def colours(self, stream: TextIO | None = None) -> bool:
        """Whether what goes to ``stream``, by default the output, may be coloured."""
        stream = stream or self.streams.stdout
        if self.env.variable("NO_COLOR") or self.env.variable("TERM") == "dumb":
            return False
        return stream.isatty()

    def width(self, stream: TextIO | None = None) -> int | None:
        """The columns of the terminal behind ``stream``, by default the output; none off a
        terminal."""
        stream = stream or self.streams.stdout
        if not stream.isatty():
            return None
        columns = self.env.variable("COLUMNS") or ""
        if columns.isdecimal() and int(columns) > 0:
            return int(columns)
        try:
            return os.get_terminal_size(stream.fileno()).columns or None
        except (OSError, ValueError):  # no terminal of the system's
            return None

    def say(self, text: str = "") -> None:
        """Print a message to stderr: progress, reasons, next steps. Never data."""
        print(printable(text), file=self.streams.stderr, flush=True)

    def show(self, text: str, *, raw: bool = False) -> None:
        """Print data to stdout; ``raw`` with the control characters in it. JSON and YAML have
        escaped them."""
        if not raw and getattr(self.args, "output", "") not in ("json", "yaml"):
            text = printable_with_colours(text) if self.colours() else printable(text)
        print(text, file=self.streams.stdout, flush=True)

    def ask(self, question: str, *, hidden: bool = False) -> str:
        """The line that the user types after ``question``; empty at the end of input. A ``hidden``
        one is not shown."""
        restore = _hide_input(self.streams.stdin) if hidden else None
        try:
            print(printable(question), end="", file=self.streams.stderr, flush=True)
            _wait_for_line(self.streams.stdin)
            return self.streams.stdin.readline()
        finally:
            if restore is not None:
                restore()
                print(file=self.streams.stderr, flush=True)  # the line end was not shown either

    def suggest(self, *suggestions: Suggestion | None) -> None:
        """Print what to try next, one per line; with tables only."""
        wanted = [self.invocation.render(each) for each in dict.fromkeys(suggestions) if each]
        if wanted and self.tables and not self.args.no_headers:
            self.say("\nTry:  " + "\n      ".join(wanted))

    def command(self, *words: str) -> str:
        """A command of this program as the user would type it."""
        return self.invocation.render(Command(words))

    def confirm(self, question: str, *, flag: str = "--yes") -> None:
        """Return only after a yes. Without a terminal, raise an error that names the flag."""
        if getattr(self.args, "yes", False):
            return
        if not self.streams.interactive:
            raise usage(f"cannot prompt without a terminal: {question}", AddFlag(flag))
        if self.ask(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
            raise CommandError("declined", exit_code=Exit.DECLINED, code="Declined")
