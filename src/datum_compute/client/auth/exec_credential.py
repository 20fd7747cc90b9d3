"""Credentials printed by a program of the user: kubeconfig ``exec`` plugins.

The program runs when an identity is first needed, again when that has expired, and again
when a server refuses it. Its input is ``KUBERNETES_EXEC_INFO``, its output an
``ExecCredential`` on standard output; standard error goes to the user. It runs with the
user's rights, so only the user's own command line allows it: see ``kubeconfig.load``.

On an event loop the program's output is read by the loop and its exit is polled; no thread
is used.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from datum_compute.client import errors
from datum_compute.client.auth.credentials import ClientIdentity
from datum_compute.client.auth.exec_plugin import (
    ExecPlugin,
    IssuedCredential,
    parse_exec_credential,
)
from datum_compute.client.http.tls import load_identity
from datum_compute.env import Environment

if TYPE_CHECKING:
    import asyncio

TIMEOUT = 60.0
"""Seconds for a program without prompts. A guess: a round trip to an identity provider."""
INTERACTIVE_TIMEOUT = 600.0
"""Seconds for one that may prompt. A guess: time to find a second factor."""
EARLY = timedelta(seconds=10)
"""An identity that expires within this is fetched again. A guess: the longest request."""
MAX_OUTPUT = 2**20
POLL_SECONDS = 0.01


class ExecCredential:
    def __init__(
        self,
        plugin: ExecPlugin,
        env: Environment,
        *,
        has_terminal: Callable[[], bool] = lambda: sys.stdin is not None and sys.stdin.isatty(),
        timeout: float | None = None,
    ) -> None:
        self._plugin = plugin
        self._env = env
        self._has_terminal = has_terminal
        self._timeout = timeout
        self._issued: IssuedCredential | None = None
        self._bound: list[tuple[ssl.SSLContext, Callable[[], None]]] = []
        self._fetching: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def bind(self, context: ssl.SSLContext, on_change: Callable[[], None]) -> None:
        """Load the program's certificates into ``context``; ``on_change`` must retire the
        connections that were made with an older one."""
        self._bound.append((context, on_change))

    def cached(self) -> ClientIdentity | None:
        issued = self._issued
        if issued is None:
            return None
        if issued.expires is not None and self._env.now() >= issued.expires - EARLY:
            return None
        return issued.identity

    def invalidate(self, identity: ClientIdentity) -> None:
        if self._issued is not None and self._issued.identity == identity:
            self._issued = None

    async def fetch(self) -> ClientIdentity:
        import asyncio

        loop = asyncio.get_running_loop()
        if self._fetching is None or self._fetching[0] is not loop:
            self._fetching = loop, asyncio.Lock()  # a command may run several loops in turn
        async with self._fetching[1]:  # one program for all callers
            return self.cached() or self._accept(*await self._run())

    def fetch_blocking(self) -> ClientIdentity:
        with self._failures():
            done = subprocess.run(
                self._arguments(),
                env=self._variables(),
                stdin=self._stdin(),
                stdout=subprocess.PIPE,
                timeout=self._limit(),
                check=False,
            )
        return self._accept(done.returncode, done.stdout)

    async def _run(self) -> tuple[int, bytes]:
        import asyncio

        with self._failures():
            process = self._start()
            try:
                async with asyncio.timeout(self._limit()):
                    output = await _output_of(process)
                    while process.poll() is None:  # noqa: ASYNC110 - a process sets no event
                        await asyncio.sleep(POLL_SECONDS)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return process.returncode, output

    def _start(self) -> subprocess.Popen[bytes]:
        # Not the event loop's subprocess: that uses a thread to wait for the exit.
        return subprocess.Popen(
            self._arguments(), env=self._variables(), stdin=self._stdin(), stdout=subprocess.PIPE
        )

    def _failures(self) -> _Failures:
        return _Failures(self._plugin, self._limit())

    def _is_interactive(self) -> bool:
        mode = self._plugin.interactive_mode
        if mode == "Never":
            return False
        if mode == "Always" and not self._has_terminal():
            raise self._failed("it needs a terminal (interactiveMode: Always) and there is none")
        return self._has_terminal()

    def _stdin(self) -> int | None:
        return None if self._is_interactive() else subprocess.DEVNULL

    def _limit(self) -> float:
        if self._timeout is not None:
            return self._timeout
        return INTERACTIVE_TIMEOUT if self._is_interactive() else TIMEOUT

    def _arguments(self) -> list[str]:
        command = self._plugin.command
        if os.sep in command:
            command = str(self._plugin.directory / command)
        return [command, *self._plugin.args]

    def _variables(self) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": self._is_interactive()}
        if self._plugin.cluster is not None:
            spec["cluster"] = dict(self._plugin.cluster)
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return {
            **self._env.variables(),
            **self._plugin.variables,
            "KUBERNETES_EXEC_INFO": json.dumps(info),
        }

    def _accept(self, code: int, output: bytes) -> ClientIdentity:
        if len(output) > MAX_OUTPUT:
            raise self._failed(f"its output exceeds {MAX_OUTPUT} bytes")
        if code != 0:
            raise self._failed(f"it exited with code {code}")
        try:
            issued = parse_exec_credential(output, self._plugin.api_version)
        except ValueError as error:
            raise self._failed(str(error)) from error
        if issued.identity.certificate_pem:
            self._load_certificate(issued)
        self._issued = issued
        return issued.identity

    def _load_certificate(self, issued: IssuedCredential) -> None:
        for context, on_change in self._bound:
            try:
                load_identity(context, issued.identity.certificate_pem, issued.key_pem)
            except (ValueError, OSError) as error:
                raise self._failed(f"its certificate cannot be used: {error}") from error
            on_change()

    def _failed(self, problem: str) -> errors.CredentialFailed:
        return _failure(self._plugin, problem)


def _failure(plugin: ExecPlugin, problem: str, hint: str = "") -> errors.CredentialFailed:
    text = f"{plugin.where}: the credential plugin {plugin.command!r}: {problem}"
    return errors.CredentialFailed(f"{text}\n{hint.strip()}" if hint else text)


class _Failures:
    """Turns exceptions of starting and running a program into ``CredentialFailed``."""

    def __init__(self, plugin: ExecPlugin, limit: float) -> None:
        self._plugin = plugin
        self._limit = limit

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TimeoutError | subprocess.TimeoutExpired):
            problem = f"no output within {self._limit:g} s"
            raise _failure(self._plugin, problem) from error
        if isinstance(error, FileNotFoundError):
            hint = self._plugin.install_hint
            raise _failure(self._plugin, "no such program", hint) from error
        if isinstance(error, OSError | ValueError):
            raise _failure(self._plugin, f"it cannot be started: {error}") from error


async def _output_of(process: subprocess.Popen[bytes]) -> bytes:
    import asyncio

    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: protocol, process.stdout)
    output = b""
    try:
        while len(output) <= MAX_OUTPUT and (chunk := await reader.read(2**16)):
            output += chunk
    finally:
        pipe.close()
    return output
