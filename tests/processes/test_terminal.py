"""Commands at a real terminal: typed into, redrawn, interrupted; and the same without one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.pseudo_terminal import CTRL_C, CTRL_D, TIMEOUT_SECONDS, Terminal
from tests.support.cli.read_screens import manifest

pytestmark = [pytest.mark.long, pytest.mark.realtime]


class Person:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            "HOME": str(directory),
            "PATH": os.defpath,
            "DATUM_RUNTIME": "simulated",
        }

    def command(self, *words: str) -> list[str]:
        state = str(self.directory / "state")
        return [sys.executable, "-m", "datum_compute.cli", *words, "--data-dir", state]

    def at_a_terminal(self, *words: str, **variables: str) -> Terminal:
        return Terminal(self.command(*words), {**self.environment, **variables})

    def in_a_script(self, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            input=typed,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env=self.environment,
        )


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    user = Person(tmp_path_factory.mktemp("person"))
    up = user.in_a_script("local", "up", "--detach", "--cities", "DFW,LHR")
    assert up.returncode == 0, up.stderr
    try:
        yield user
    finally:
        user.in_a_script("local", "down")


def test_a_deploy_without_arguments_asks_and_draws_what_happens(person: Person) -> None:
    terminal = person.at_a_terminal("deploy")
    terminal.answers("Name: ", "Not A Name")
    terminal.sees("use lower-case letters")
    terminal.answers("Name: ", "asked")
    terminal.answers("Image: ", "registry.example/acme/asked:1")
    terminal.answers("Instance type (d1-standard-2) [d1-standard-2]: ", "")
    terminal.answers("Cities (DFW, LHR): ", "XYZ")
    terminal.sees("XYZ is not served; choose from DFW, LHR")
    terminal.answers("Cities (DFW, LHR): ", "dfw lhr")
    terminal.answers("Instances in each city [1]: ", "2")
    terminal.answers("Port, or none [none]: ", "8080")
    terminal.sees('Workload "asked" does not exist in project demo.')
    terminal.sees("8080/tcp")
    terminal.answers("Deploy it? [y/N] ", "y")
    terminal.sees("healthy, watching for ")
    terminal.sees("Rollout complete in ")
    terminal.sees("asked-default-lhr-1")

    assert terminal.ends() == 0
    assert re.search(rb"\x1b\[\d*A", terminal.everything), "rows are drawn again where they stand"
    found = json.loads(person.in_a_script("status", "asked", "-o", "json").stdout)
    assert found["image"] == "registry.example/acme/asked:1"
    assert [row["desired"] for row in found["placements"]] == [2, 2]

    again = person.at_a_terminal("deploy")
    again.answers("Name: ", "asked")
    again.answers("Image [registry.example/acme/asked:1]: ", "registry.example/acme/asked:2")
    for question in ("Instance type", "Cities", "Instances in each city [2]", "Port, or none ["):
        again.answers(question, "")
    again.answers("Deploy it? [y/N] ", "n")
    assert again.ends() == 9


def test_end_of_input_never_confirms_a_prompt(person: Person) -> None:
    person.in_a_script("deploy", "kept", "--image=a:1", "--city=DFW", "--window=0s")
    destroy = person.at_a_terminal("destroy", "kept")
    destroy.sees("[y/N] ")
    destroy.types(CTRL_D)
    assert destroy.ends() == 9

    deploy = person.at_a_terminal("deploy")
    deploy.sees("Name: ")
    deploy.types(CTRL_D)
    assert deploy.ends() == 9

    assert person.in_a_script("destroy", "kept", typed="y\n").returncode == 2
    assert person.in_a_script("status", "kept").returncode == 0


def test_prompts_are_refused_without_a_terminal_and_name_the_flag(person: Person) -> None:
    person.in_a_script("deploy", "kept", "--image=a:1", "--city=DFW", "--window=0s")
    for words in (
        ("destroy", "kept"),
        ("deploy", "kept", "--network=nosuch"),
        ("local", "reset"),
    ):
        done = person.in_a_script(*words, typed="y\ny\n")
        assert done.returncode == 2, done.stderr
        assert "--yes" in done.stderr
    asked = person.in_a_script("deploy", typed="name\n")
    assert asked.returncode == 2
    assert "-f FILE" in asked.stderr


def slow(person: Person, name: str) -> str:
    file = person.directory / f"{name}.json"
    file.write_text(json.dumps(manifest(name, start_seconds="600")))
    return str(file)


def test_ctrl_c_while_watching_detaches(person: Person) -> None:
    terminal = person.at_a_terminal("deploy", "-f", slow(person, "slow"))
    terminal.sees("PHASE")
    terminal.sees("Creating")
    terminal.types(CTRL_C)
    terminal.sees("Detached; the rollout of")

    assert terminal.ends() == 130
    assert b"Traceback" not in terminal.everything
    assert person.in_a_script("status", "slow").returncode == 0
    history = person.in_a_script("rollout", "history", "slow", "-o", "json")
    assert [each["changes"] for each in json.loads(history.stdout)] == ["created"]


def test_ctrl_c_at_a_prompt_interrupts_the_command(person: Person) -> None:
    person.in_a_script("deploy", "kept", "--image=a:1", "--city=DFW", "--window=0s")
    terminal = person.at_a_terminal("destroy", "kept")
    terminal.sees("[y/N] ")
    terminal.types(CTRL_C)

    assert terminal.ends() == 130
    assert b"Traceback" not in terminal.everything


def test_piped_output_has_no_escape_codes_and_no_color_is_honoured(person: Person) -> None:
    piped = person.in_a_script("deploy", "piped", "--image=a:1", "--city=DFW", "--window=0s")
    assert piped.returncode == 0
    assert "\x1b" not in piped.stdout + piped.stderr
    assert "\x1b" not in person.in_a_script("instances").stdout

    coloured = person.at_a_terminal("instances")
    assert coloured.ends() == 0
    assert b"\x1b[32m" in coloured.everything
    plain = person.at_a_terminal("instances", NO_COLOR="1")
    assert plain.ends() == 0
    assert b"\x1b[3" not in plain.everything


def test_reset_asks_and_then_deletes_the_platforms_files(tmp_path: Path) -> None:
    user = Person(tmp_path)
    assert user.in_a_script("local", "up", "--detach", "--cities", "DFW").returncode == 0
    user.in_a_script("deploy", "api", "--image=a:1", "--city=DFW", "--no-wait")

    no = user.at_a_terminal("local", "reset")
    no.answers("Reset the local platform? [y/N] ", "")
    assert no.ends() == 9
    assert user.in_a_script("status", "api").returncode == 0

    (tmp_path / "state" / "mine.txt").write_text("not the platform's")
    yes = user.at_a_terminal("local", "reset")
    yes.answers("Reset the local platform? [y/N] ", "y")
    assert yes.ends() == 0
    left = {path.name for path in (tmp_path / "state").iterdir()}
    assert left == {"lock", "mine.txt"}

    try:
        assert user.in_a_script("local", "up", "--detach").returncode == 0
        assert user.in_a_script("workloads", "-o", "name").stdout == ""
    finally:
        user.in_a_script("local", "down")


def test_the_value_of_a_secret_is_typed_unseen_and_the_terminal_put_back(person: Person) -> None:
    terminal = person.at_a_terminal("secrets", "set", "keys", "token", "other")
    terminal.sees("Value of token: ")
    assert not terminal.shows_typing
    terminal.types("s3cr3t-typed")
    terminal.answers("Value of other: ", "s3cr3t-too")
    terminal.sees('Secret "keys" created.')

    assert terminal.ends() == 0
    assert terminal.was_restored
    assert b"s3cr3t" not in terminal.everything


def test_ctrl_c_at_the_value_of_a_secret_sets_nothing(person: Person) -> None:
    terminal = person.at_a_terminal("secrets", "set", "unset-keys", "token")
    terminal.sees("Value of token: ")
    terminal.types(CTRL_C)

    assert terminal.ends() == 130
    assert terminal.was_restored
    assert "unset-keys" not in person.in_a_script("secrets", "list").stdout
