"""The token that datumctl's credential helper gives to plugins, renewed when it ages.

``$DATUM_CREDENTIALS_HELPER auth get-token`` prints a token. It runs when a token is first needed,
when a server refuses the last one, and when the last one is old: a command that watches for an hour
opens a new watch every few minutes, and each must not begin with a refusal.
"""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta

from datum_compute.cli.errors import CommandError, usage
from datum_compute.cli.explain.suggestions import AddFlag, OtherProgram
from datum_compute.client.auth.credentials import ClientIdentity, is_token
from datum_compute.env import Environment

TIMEOUT_SECONDS = 30.0
TOKEN_LIFETIME = timedelta(minutes=4)
"""A guess: shorter than the life of any token, and longer than most commands."""


class HelperCredential:
    def __init__(self, env: Environment) -> None:
        helper = env.variable("DATUM_CREDENTIALS_HELPER")
        if not helper:
            raise usage(
                "no credentials: DATUM_CREDENTIALS_HELPER is not set", AddFlag("--token", "TOKEN")
            )
        self._env = env
        self._command = [helper, "auth", "get-token"]
        if session := env.variable("DATUM_SESSION"):
            self._command += ["--session", session]
        self._given: tuple[ClientIdentity, datetime] | None = None

    def cached(self) -> ClientIdentity | None:
        if self._given is None or self._env.now() - self._given[1] >= TOKEN_LIFETIME:
            return None
        return self._given[0]

    async def fetch(self) -> ClientIdentity:
        # Blocks the loop: nothing can go on without a token.
        return self.fetch_blocking()

    def fetch_blocking(self) -> ClientIdentity:
        identity = ClientIdentity(self._ask())
        self._given = identity, self._env.now()
        return identity

    def invalidate(self, identity: ClientIdentity) -> None:
        if self._given is not None and self._given[0] == identity:
            self._given = None

    def _ask(self) -> str:
        try:
            done = subprocess.run(
                self._command,
                capture_output=True,
                text=True,
                errors="replace",  # it is no token then
                timeout=TIMEOUT_SECONDS,
                check=True,
                env=self._env.variables(),
            )
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or "").strip().splitlines()
            why = lines[-1] if lines else f"{self._command[0]} exited with {error.returncode}"
            raise _no_token(why) from error
        except OSError as error:
            raise _no_token(f"{self._command[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            why = f"{self._command[0]} did not answer within {TIMEOUT_SECONDS} s"
            raise _no_token(why) from error
        token = done.stdout.strip()
        if not token or not is_token(token):
            raise _no_token(f"{self._command[0]} printed no token")
        return token


def _no_token(why: str) -> CommandError:
    return CommandError(
        f"cannot get a token: {why}", OtherProgram(("datumctl", "login")), code="CredentialFailed"
    )
