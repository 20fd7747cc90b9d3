"""A state directory is held by one process at a time, and what is written in it is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from datum_compute.assembly.local.state import (
    AlreadyRunning,
    LocalSettings,
    RunningPlatform,
    StateDirectory,
    default_directory,
)
from datum_compute.testing.environment import SimulatedEnvironment

RUNNING = RunningPlatform(1, "https://127.0.0.1:7443", "demo", "2026-01-01T00:00:00+00:00")


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    directory = StateDirectory(tmp_path / "state")
    directory.create()
    return directory


def test_a_directory_is_private(state: StateDirectory) -> None:
    state.ensure_token(SimulatedEnvironment())

    assert state.path.stat().st_mode & 0o777 == 0o700
    assert (state.path / "token").stat().st_mode & 0o777 == 0o600


def test_only_one_holds_it(state: StateDirectory) -> None:
    with state.hold():
        assert state.is_held()
        with pytest.raises(AlreadyRunning), state.hold():
            pass
    assert not state.is_held()


def test_what_a_killed_platform_left_misleads_nobody(state: StateDirectory) -> None:
    state.announce(RUNNING)

    assert state.running() is None
    with state.hold():
        assert state.running() is None, "an announcement of an earlier process counts for nothing"
        state.announce(RUNNING)
        assert state.running() == RUNNING


def test_settings_come_back_as_they_were_stored(state: StateDirectory) -> None:
    assert state.settings() is None
    settings = LocalSettings(cities=("AMS",), project="other", port=7000)

    state.store_settings(settings)

    assert state.settings() == settings


def test_a_token_is_made_once(state: StateDirectory) -> None:
    env = SimulatedEnvironment()

    assert state.ensure_token(env) == state.ensure_token(env) == state.token()


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"XDG_STATE_HOME": "/x"}, "/x/datum-compute"),
        ({"HOME": "/home/ana"}, "/home/ana/.local/state/datum-compute"),
    ],
)
def test_where_state_lives_by_default(variables: dict[str, str], path: str) -> None:
    assert default_directory(SimulatedEnvironment(variables=variables)) == Path(path)
