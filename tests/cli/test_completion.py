"""What a shell is told may stand at the cursor."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from datum_compute.cli.commands.completion.command import SCRIPTS
from datum_compute.cli.context import Streams
from datum_compute.cli.main import COMMANDS, main
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.cli.session import CliSession, cli_session


def asked(here: CliSession, *words: str) -> tuple[list[str], str]:
    """Candidates without their descriptions, and the bits."""
    *lines, bits = _answer(here, *words)
    return [line.partition("\t")[0] for line in lines], bits


def _answer(here: CliSession, *words: str) -> list[str]:
    import shlex

    result = here.run(shlex.join(["__complete", *words]))
    assert (result.code, result.err) == (0, "")
    return result.out.splitlines()


def test_names_come_from_the_platform() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a:1 --city=DFW,LHR")
        here.run("deploy web --image=a:1 --city=DFW")
        here.wait(1)

        assert asked(here, "status", "") == (["api", "web"], ":4")
        assert asked(here, "status", "w") == (["web"], ":4")
        assert asked(here, "instances", "describe", "api") == (
            ["api-default-dfw-0", "api-default-lhr-0"],
            ":4",
        )
        assert asked(here, "why", "web")[0] == ["web", "web-default-dfw-0"]
        assert asked(here, "instances", "--city", "")[0] == ["DFW", "LHR"]
        assert asked(here, "instances", "--city=L")[0] == ["--city=LHR"]
        assert asked(here, "instances", "--workload", "a")[0] == ["api"]
        assert asked(here, "deploy", "api", "--instance-type", "")[0] == ["d1-standard-2"]
        assert asked(here, "rollout", "status", "")[0] == ["api", "web"]
        actions, names = asked(here, "rollout", "")[0][:-2], asked(here, "rollout", "")[0][-2:]
        assert "status" in actions
        assert names == ["api", "web"]
        assert asked(here, "scale", "api", "")[0] == []
        assert _answer(here, "status", "a") == ["api\tAvailable", ":4"]


def test_the_command_line_itself_needs_no_platform() -> None:
    with cli_session() as here:
        assert asked(here, "")[0] == list(COMMANDS)
        assert asked(here, "inst")[0] == ["instances", "instance-types"]
        assert asked(here, "--v")[0] == ["--version"]
        assert asked(here, "instances", "")[0] == ["list", "describe"]
        assert asked(here, "local", "")[0][:2] == ["up", "down"]
        assert "--watch" in asked(here, "instances", "--")[0]
        assert "--ready-fd" not in asked(here, "local", "up", "--")[0]
        assert asked(here, "status", "api", "-o", "")[0] == [
            "table",
            "wide",
            "json",
            "yaml",
            "name",
        ]
        assert asked(here, "completion", "")[0] == ["bash", "zsh", "fish"]
        assert asked(here, "workloads", "--health", "un")[0] == ["unavailable", "unknown"]
        assert asked(here, "deploy", "-f", "")[1] == ":0"


@pytest.mark.parametrize("words", [("status", ""), ("instances", "--city", ""), ("why", "x")])
def test_a_platform_that_cannot_be_asked_gives_no_candidates_and_no_noise(
    words: tuple[str, ...],
) -> None:
    out, err = io.StringIO(), io.StringIO()
    env = SimulatedEnvironment(variables={"XDG_STATE_HOME": "/nonexistent"})

    code = main(["__complete", *words], env, Streams(io.StringIO(), out, err))

    assert (code, out.getvalue(), err.getvalue()) == (0, ":4\n", "")


@pytest.mark.parametrize(
    ("words", "candidates", "files"),
    [("inst", ["instances", "instance-types"], False), ("deploy -f ''", [], True)],
    ids=["names", "files"],
)
def test_a_shell_takes_the_script_and_gets_candidates(
    words: str, candidates: list[str], files: bool
) -> None:
    """In a real bash, with a program that answers as ours does; files are offered only where
    a file is meant."""
    program = (
        f"{SCRIPTS['bash']}\n"
        'datumctl-compute() { [ "$1" = __complete ] && '
        f'{sys.executable} -m datum_compute.cli "$@"; }}\n'
        'compopt() { told="$*"; }\n'
        f"COMP_WORDS=(datumctl-compute {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_datumctl_compute; printf "%s\\n" "${COMPREPLY[@]}"; echo "told:$told" >&2\n'
    )

    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.stdout.split() == candidates
    assert done.stderr.strip() == ("told:" if files else "told:+o default")


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_every_script_asks_the_program_and_minds_whether_files_are_meant(shell: str) -> None:
    script = SCRIPTS[shell]

    assert "__complete" in script
    assert ":0" in script
