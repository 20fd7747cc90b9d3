"""The token helper of datumctl runs when a token is needed, refused, or old."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import OtherProgram
from datum_compute.cli.targets.credential_helper import TOKEN_LIFETIME, HelperCredential
from datum_compute.client import errors
from datum_compute.client.auth.credentials import ClientIdentity
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.client.scripted_server import (
    REALMS,
    WIDGET,
    ScriptedServer,
    ScriptedStream,
    answer,
    refusal,
)


class Clock(SimulatedEnvironment):
    passed = timedelta()

    def now(self) -> datetime:
        return self.start + self.passed


class Helper:
    """A program that prints a new token each time, and records how it was called."""

    def __init__(self, directory: Path) -> None:
        self._calls = directory / "calls"
        self.path = directory / "datumctl"
        self.set_script(f"echo \"  token-$(wc -l < {self._calls} | tr -d ' ')  \"")

    def set_script(self, line: str) -> None:
        self.path.write_text(f'#!/bin/sh\necho "$@" >> {self._calls}\n{line}\n')
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def environment(self, **more: str) -> Clock:
        known = {"DATUM_CREDENTIALS_HELPER": str(self.path), "PATH": "/usr/bin:/bin"}
        return Clock(variables={**known, **more})


@pytest.fixture
def helper(tmp_path: Path) -> Helper:
    return Helper(tmp_path)


class Guard:
    """A server that accepts one token at a time, and ends every watch cleanly."""

    token = "token-1"

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return answer(refusal(401, "Unauthorized"), 401)
        if ("watch", "true") in request.query:
            return HttpResponse(200, {}, stream=ScriptedStream([]))
        return answer(WIDGET)


async def test_the_helper_runs_once_and_again_after_a_401(helper: Helper) -> None:
    guard = Guard()
    client = ScriptedServer(guard).client(token=HelperCredential(helper.environment()))
    assert helper.calls == [], "no token is needed yet"

    await client.get(REALMS, "one")
    await client.get(REALMS, "one")
    assert helper.calls == ["auth get-token"]

    guard.token = "token-2"
    await client.get(REALMS, "one")
    assert helper.calls == ["auth get-token"] * 2


async def test_a_401_that_a_new_token_does_not_fix_is_reported(helper: Helper) -> None:
    guard = Guard()
    guard.token = "of-another-user"
    client = ScriptedServer(guard).client(token=HelperCredential(helper.environment()))

    with pytest.raises(errors.Unauthorized):
        await client.get(REALMS, "one")

    assert len(helper.calls) == 2


async def test_a_long_watch_is_opened_again_with_a_fresh_token(helper: Helper) -> None:
    """The old token is not refused yet, but would expire during the next watch."""
    env, guard = helper.environment(), Guard()
    toy = ScriptedServer(guard)
    client = toy.client(token=HelperCredential(env))
    for number, passed in enumerate((0, 1, 2), 1):
        env.passed = passed * TOKEN_LIFETIME
        guard.token = f"token-{number}"
        async with client.watch(REALMS) as events:
            assert [event async for event in events] == []

    assert len(helper.calls) == 3
    assert len(toy.requests) == 3, "none of them was refused"


def test_the_helper_receives_the_session_and_the_environment(helper: Helper) -> None:
    helper.set_script('echo "$FROM_OUTSIDE"')
    env = helper.environment(DATUM_SESSION="work", FROM_OUTSIDE="handed-on")

    assert HelperCredential(env).fetch_blocking() == ClientIdentity("handed-on")
    assert helper.calls == ["auth get-token --session work"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("echo 'log in first' >&2; exit 1", "log in first"),
        ("exit 3", "datumctl exited with 3"),
        ("echo", "printed no token"),
        ("printf 'two\\nlines'", "printed no token"),
        ("printf '\\377'", "printed no token"),
    ],
)
def test_a_helper_without_a_token_is_reported_with_what_to_do(
    helper: Helper, line: str, why: str
) -> None:
    helper.set_script(line)

    with pytest.raises(CommandError, match=why) as raised:
        HelperCredential(helper.environment()).fetch_blocking()

    assert raised.value.exit_code is Exit.FAILED
    assert raised.value.suggestions == (OtherProgram(("datumctl", "login")),)


def test_a_missing_helper_is_reported(tmp_path: Path) -> None:
    missing = SimulatedEnvironment(variables={"DATUM_CREDENTIALS_HELPER": str(tmp_path / "no")})

    with pytest.raises(CommandError, match="cannot get a token: "):
        HelperCredential(missing).fetch_blocking()
    with pytest.raises(CommandError, match="DATUM_CREDENTIALS_HELPER is not set"):
        HelperCredential(SimulatedEnvironment())
