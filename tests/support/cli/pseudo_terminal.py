"""A real terminal for a command, and the user who types there."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

CTRL_C, CTRL_D = b"\x03", b"\x04"
TIMEOUT_SECONDS = 60.0
"""Seconds until something that does not appear is missed."""


class Terminal:
    """A command on a pseudo-terminal, and the user who types there."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._shown = b""
        master, slave = pty.openpty()
        self._master = master
        self._process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"},
            start_new_session=True,
            preexec_fn=lambda: _own(slave),
        )
        os.close(slave)

    def sees(self, text: str) -> None:
        """Wait until it is on the screen, after what was seen last."""
        while text.encode() not in self._shown:
            chunk = self._read()
            assert chunk, f"{text!r} never came: {self._shown.decode(errors='replace')}"
            self.everything += chunk
        self._shown = self._shown.partition(text.encode())[2]

    everything = b""

    def types(self, text: str | bytes) -> None:
        os.write(self._master, text if isinstance(text, bytes) else f"{text}\n".encode())

    def answers(self, question: str, text: str) -> None:
        self.sees(question)
        self.types(text)

    @property
    def shows_typing(self) -> bool:
        """Whether it shows what is typed, as terminals do that no program has taken over."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    @property
    def pid(self) -> int:
        return self._process.pid

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def ends(self) -> int:
        while chunk := self._read():
            self.everything += chunk
        code = self._process.wait(TIMEOUT_SECONDS)
        self.was_restored = self.shows_typing
        os.close(self._master)
        return code

    was_restored = False

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._master], [], [], TIMEOUT_SECONDS)
        assert ready, f"nothing came for a while: {self._shown.decode(errors='replace')}"
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # how the end of a terminal shows on Linux
            return b""
        self._shown += chunk
        return chunk


def _own(slave: int) -> None:
    """Make it the terminal of the new session, so that Ctrl-C reaches its processes."""
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
