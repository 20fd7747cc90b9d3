"""A state directory is held by one process at a time, and what is written in it is whole."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from datum_compute.assembly.local.state import (
    AlreadyRunning,
    LocalSettings,
    RunningPlatform,
    SettingsDamaged,
    StateDirectory,
    StateUnusable,
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


def test_only_one_process_holds_a_state_directory(state: StateDirectory) -> None:
    with state.hold():
        assert state.is_held()
        with pytest.raises(AlreadyRunning), state.hold():
            pass
    assert not state.is_held()


def test_an_announcement_left_by_a_killed_platform_is_ignored(state: StateDirectory) -> None:
    state.announce(RUNNING)

    assert state.running() is None
    with state.hold():
        assert state.running() is None, "an announcement of an earlier process counts for nothing"
        state.announce(RUNNING)
        assert state.running() == RUNNING


def test_settings_are_read_back_as_stored(state: StateDirectory) -> None:
    assert state.settings() is None
    settings = LocalSettings(cities=("AMS",), project="other", port=7000)

    state.store_settings(settings)

    assert state.settings() == settings


def test_the_holder_is_known_before_it_announces_itself(state: StateDirectory) -> None:
    assert state.holder() is None
    with state.hold():
        assert (state.running(), state.holder()) == (None, os.getpid())
    assert state.holder() is None, "what is left in the file counts for nothing"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"a": 1}', '{"pid": 1, "address": 5, "project": "", "started_at": ""}']
)
def test_a_malformed_announcement_is_ignored(state: StateDirectory, text: str) -> None:
    with state.hold():
        (state.path / "platform.json").write_text(text)

        assert state.running() is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"cities": ["DFW", "LHR"], "pro',
        "[]",
        "{}",
        '{"cities": 5}',
        '{"cities": []}',
        '{"cities": [1]}',
        '{"cities": ["DFW"], "port": "x"}',
        '{"cities": ["DFW"], "project": null}',
        '{"cities": ["DFW"], "grant": null}',
        '{"cities": ["DFW"], "grant": {"instances": "many"}}',
        '{"cities": ["DFW"], "storage": "paper"}',
        '{"cities": ["DFW"], "runtime": "magic"}',
        '{"cities": ["DFW"], "runtime_settings": {"socket": "x"}}',
    ],
)
def test_damaged_settings_are_named(state: StateDirectory, text: str) -> None:
    (state.path / "settings.json").write_text(text)

    with pytest.raises(StateUnusable, match=r"settings\.json is damaged"):
        state.settings()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "it is empty, which is not a JSON object"),
        ("garbage", "it begins with 'garbage', which is not a JSON object"),
        ('{"cities": ["DFW", "LHR"], "project": "demo", "po', "d…', which is not a JSON object"),
        ('{"cities": "DFW"}', 'cities is "DFW", expected a list of city codes'),
        ('{"cities": ["DFW"], "port": true}', "port is true, expected a whole number"),
        ('{"cities": ["DFW"], "grant": []}', "grant is [], expected an object of whole numbers"),
        ('{"cities": ["DFW"], "runtime": []}', "runtime is [], expected a text"),
    ],
)
def test_damaged_settings_say_what_was_found(state: StateDirectory, text: str, found: str) -> None:
    (state.path / "settings.json").write_text(text)

    with pytest.raises(SettingsDamaged, match=re.escape(found)):
        state.settings()


def test_a_removed_directory_is_lost_to_its_holder_also_when_there_is_a_new_one(
    state: StateDirectory,
) -> None:
    found = []
    with state.hold():
        found.append(state.is_lost())
        shutil.rmtree(state.path)
        found.append(state.is_lost())
        state.create()
        with StateDirectory(state.path).hold():
            found.append(state.is_lost())
            (state.path / "platform.json").write_text("{}")

    assert found == [False, True, True]


def test_the_holder_of_a_removed_directory_leaves_the_files_of_the_next(
    state: StateDirectory,
) -> None:
    with state.hold():
        shutil.rmtree(state.path)
        state.create()
        (state.path / "platform.json").write_text("{}")

    assert (state.path / "platform.json").exists()


def test_a_damaged_list_of_disconnected_cells_is_named(state: StateDirectory) -> None:
    (state.path / "disconnected.json").write_text('{"cells": ["df')

    with pytest.raises(StateUnusable, match=r"disconnected\.json is damaged"):
        state.disconnected()


def test_the_kubeconfig_is_private_and_goes_with_a_reset(state: StateDirectory) -> None:
    state.store_kubeconfig("token: secret")

    assert state.kubeconfig.stat().st_mode & 0o777 == 0o600
    state.reset()
    assert not state.kubeconfig.exists()


def test_a_reset_removes_every_file_of_the_store_and_nothing_else(state: StateDirectory) -> None:
    of_any_engine = ["state.db", "state.db-wal", "state.db-00001.log"]
    for name in [*of_any_engine, "notes.txt", "state.db.mine"]:
        (state.path / name).write_text("")

    state.reset()

    assert sorted(each.name for each in state.path.iterdir()) == [
        "lock",
        "notes.txt",
        "state.db.mine",
    ]
    assert not state.has_state()


def test_a_grant_of_some_resources_keeps_the_default_of_the_others(state: StateDirectory) -> None:
    (state.path / "settings.json").write_text('{"cities": ["DFW"], "grant": {"instances": 5}}')

    settings = state.settings()

    assert settings is not None
    assert settings.grant == {**LocalSettings().grant, "instances": 5}


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        state = StateDirectory(path)
        for act in (state.create, state.settings, state.running, state.token):
            with pytest.raises(StateUnusable, match=r"file.*: (Not a directory|File exists)"):
                act()


def test_a_token_is_generated_once(state: StateDirectory) -> None:
    env = SimulatedEnvironment()

    assert state.ensure_token(env) == state.ensure_token(env) == state.token()


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"XDG_STATE_HOME": "/x"}, "/x/datum-compute"),
        ({"HOME": "/home/ana"}, "/home/ana/.local/state/datum-compute"),
    ],
)
def test_the_default_state_directory(variables: dict[str, str], path: str) -> None:
    assert default_directory(SimulatedEnvironment(variables=variables)) == Path(path)
