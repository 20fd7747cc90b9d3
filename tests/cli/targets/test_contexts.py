"""Contexts: stored, selected, shown and removed."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest

from datum_compute.assembly.local.state import RunningPlatform, StateDirectory
from datum_compute.cli.context import Streams
from datum_compute.cli.main import main
from datum_compute.testing.environment import SimulatedEnvironment

SHOP = "--server https://api.example --project shop --token-file {}/token"


class Shell:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "token").write_text("t\n")
        self._env = SimulatedEnvironment(
            variables={"HOME": str(directory), "XDG_CONFIG_HOME": str(directory / "config")}
        )

    def types(self, line: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        code = main(shlex.split(line), self._env, Streams(io.StringIO(), out, err))
        return code, out.getvalue(), err.getvalue()

    def succeeds(self, line: str) -> str:
        code, out, err = self.types(line)
        assert code == 0, err
        return out


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path)
    found.succeeds(f"context add shop {SHOP.format(tmp_path)}")
    found.succeeds(f"context add home --data-dir {tmp_path}/state")
    return found


def test_a_context_that_is_used_is_where_commands_act(shell: Shell) -> None:
    assert shell.types("context show")[0] == 1, "no target is selected"

    shell.succeeds("context use shop")

    shown = json.loads(shell.succeeds("context show -o json"))
    assert shown["project"] == "shop"
    assert shown["server"].startswith("https://api.example/apis/")
    assert shown["server"].endswith("/projects/shop/control-plane")
    assert shown["selectedBy"].startswith("context shop: ")
    assert shown["credential"] == f"--token-file {shell.directory}/token"
    assert "Project       mine" in shell.succeeds("context show --project mine")


def test_contexts_are_listed_without_their_tokens(shell: Shell) -> None:
    shell.succeeds("context use shop")

    listed = json.loads(shell.succeeds("context list -o json"))

    assert [(each["name"], each["current"]) for each in listed] == [("home", False), ("shop", True)]
    assert shell.succeeds("context list").splitlines()[0].split() == [
        "CURRENT", "NAME", "PROJECT", "TARGET", "CREDENTIAL",
    ]  # fmt: skip


def test_a_removed_context_is_not_used_any_more(shell: Shell) -> None:
    shell.succeeds("context use shop")
    shell.succeeds("context remove shop")

    assert shell.types("context show")[0] == 1
    assert shell.types("context use shop")[0] == 5
    assert shell.types(f"context add home {SHOP.format(shell.directory)}")[0] == 6
    assert [each["name"] for each in json.loads(shell.succeeds("context list -o json"))] == ["home"]


def test_dash_selects_no_context(shell: Shell) -> None:
    shell.succeeds("context use shop")
    shell.succeeds("context use -")

    assert shell.types("context show")[0] == 1


def test_a_token_is_never_stored(shell: Shell) -> None:
    code, _, err = shell.types("context add other --server https://api.example --token secret")

    assert code == 2
    assert "--token-file" in err
    assert "secret" not in (shell.directory / "config/datum-compute/contexts.json").read_text()


@pytest.mark.parametrize("selected", ["context use home", ""])
def test_a_context_of_a_local_platform_that_is_down_names_the_one_to_start(
    shell: Shell, selected: str
) -> None:
    if selected:
        shell.succeeds(selected)
    flag = "" if selected else " --context home"

    for line in ("workloads", "context show"):
        code, _, error = shell.types(line + flag)

        assert code == 1
        assert error.splitlines() == [
            f"Error: no local platform is running in {shell.directory}/state,"
            " which context home selects",
            f"Try:  datumctl-compute local up --detach --data-dir {shell.directory}/state",
        ]


def test_local_commands_follow_no_context_and_suggest_none(shell: Shell) -> None:
    shell.succeeds("context use home")

    code, _, error = shell.types("local status")

    assert code == 5
    assert error.splitlines()[-1] == "Try:  datumctl-compute local up --detach"


def test_a_server_that_refuses_connections_is_looked_for_in_the_directory_of_the_context(
    shell: Shell,
) -> None:
    shell.succeeds("context use home")
    state = StateDirectory(shell.directory / "state")
    state.create()
    state.ensure_token(SimulatedEnvironment(1))
    (state.path / "ca.crt").write_text("")
    with state.hold():
        state.announce(RunningPlatform(1, "http://127.0.0.1:1", "demo", "2026-01-01T00:00:00Z"))

        error = shell.types("workloads")[2]

    assert error.splitlines()[-1] == (
        f"Try:  datumctl-compute local status --data-dir {shell.directory}/state"
    )


def test_a_context_of_a_server_without_a_project_is_stored_with_a_note(shell: Shell) -> None:
    note = "It names no project, so commands in it need --project.\n"
    plane = (
        "https://api.example/apis/resourcemanager.miloapis.com/v1alpha1/projects/p/control-plane"
    )

    assert shell.types("context add bare --server https://api.example")[2].endswith(note)
    assert note not in shell.types("context add other --server https://api.example --project p")[2]
    assert note not in shell.types(f"context add whole --server {plane}")[2]
