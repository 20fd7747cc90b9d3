"""The candidates that the program prints for shell completion."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from datum_compute.cli.commands.completion.command import SCRIPTS
from datum_compute.cli.context import Destination, Streams
from datum_compute.cli.main import COMMANDS, main
from datum_compute.env import Environment
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.cli.session import CliSession, SessionReach, cli_session


def complete(here: CliSession, *words: str) -> tuple[list[str], str]:
    """Candidates without their descriptions, and the bits."""
    *lines, bits = _answer(here, *words)
    return [line.partition("\t")[0] for line in lines], bits


def _answer(here: CliSession, *words: str) -> list[str]:
    result = here.run(shlex.join(["__complete", *words]))
    assert (result.code, result.err) == (0, "")
    return result.out.splitlines()


def test_completion_lists_names_from_the_platform() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a:1 --city=DFW,LHR")
        here.run("deploy web --image=a:1 --city=DFW")
        here.wait(1)

        assert complete(here, "status", "") == (["api", "web"], ":4")
        assert complete(here, "status", "w") == (["web"], ":4")
        assert complete(here, "instances", "describe", "api") == (
            ["api-default-dfw-0", "api-default-lhr-0"],
            ":4",
        )
        assert complete(here, "why", "web")[0] == ["web", "web-default-dfw-0"]
        assert complete(here, "instances", "--city", "")[0] == ["DFW", "LHR"]
        assert complete(here, "instances", "--city=L")[0] == ["--city=LHR"]
        assert complete(here, "instances", "--workload", "a")[0] == ["api"]
        assert complete(here, "deploy", "api", "--instance-type", "")[0] == ["d1-standard-2"]
        assert complete(here, "rollout", "status", "")[0] == ["api", "web"]
        actions, names = (
            complete(here, "rollout", "")[0][:-2],
            complete(here, "rollout", "")[0][-2:],
        )
        assert "status" in actions
        assert names == ["api", "web"]
        assert complete(here, "rollout", "skip", "api", "")[0] == ["DFW", "LHR"]
        assert complete(here, "deploy", "api", "--waves=")[0] == [
            f"--waves={each}" for each in ("each", "none", "DFW", "LHR")
        ]
        assert complete(here, "deploy", "api", "--on-failure", "u")[0] == ["undo"]
        assert complete(here, "scale", "api", "")[0] == []
        assert complete(here, "stop", "")[0] == ["api", "web"]
        assert complete(here, "start", "api", "--city", "")[0] == ["DFW", "LHR"]
        assert _answer(here, "status", "a") == ["api\tAvailable", ":4"]


def test_completion_lists_commands_flags_and_fixed_values() -> None:
    with cli_session() as here:
        assert complete(here, "")[0] == list(COMMANDS)
        assert complete(here, "inst")[0] == ["instances", "instance-types"]
        assert complete(here, "--v")[0] == ["--version"]
        assert complete(here, "instances", "")[0] == ["list", "describe"]
        assert complete(here, "local", "")[0][:2] == ["up", "down"]
        assert "--watch" in complete(here, "instances", "--")[0]
        assert "--ready-fd" not in complete(here, "local", "up", "--")[0]
        assert complete(here, "status", "api", "-o", "")[0] == [
            "table",
            "wide",
            "json",
            "yaml",
            "name",
        ]
        assert complete(here, "completion", "")[0] == ["bash", "zsh", "fish"]
        assert complete(here, "workloads", "--health", "un")[0] == ["unavailable", "unknown"]
        assert complete(here, "deploy", "-f", "")[1] == ":0"


@pytest.mark.parametrize("words", [("status", ""), ("instances", "--city", ""), ("why", "x")])
def test_completion_without_a_platform_prints_no_candidates_and_no_error(
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
def test_bash_loads_the_script_and_gets_candidates(
    words: str, candidates: list[str], files: bool
) -> None:
    """In a real bash, which completes files only where the program asks for them."""
    answer = f'{sys.executable} -m datum_compute.cli "$@"'

    assert run_in_bash(words, f"datumctl-compute {words}", answer) == (
        candidates,
        "options:" if files else "options:+o default",
    )


def run_in_bash(words: str, line: str, answer: str) -> tuple[list[str], str]:
    """The candidates, and the changes of options, for words as readline breaks ``line``."""
    program = (
        f"{SCRIPTS['bash']}\n"
        f'datumctl-compute() {{ [ "$1" = __complete ] && {answer}; }}\n'
        'compopt() { options="$*"; }\n'
        f"COMP_WORDS=(datumctl-compute {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        f"COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}\n"
        '_datumctl_compute; printf "%s\\n" "${COMPREPLY[@]}"; echo "options:$options" >&2\n'
    )
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout.split(), done.stderr.strip()


@pytest.mark.parametrize(
    ("words", "line", "candidates"),
    [
        ("--city = L", "--city=L", ["LHR"]),
        ("--city =", "--city=", ["DFW", "LHR"]),
        ("--server = https : //h : 7443 --city = D", "--server=https://h:7443 --city=D", ["DFW"]),
        ("--city L", "--city L", ["Lof", "L--city"]),
        ("--city = ''", "--city= ", ["of", "--city="]),
        ("--image = a : 1 ''", "--image=a:1 ", ["of", "--image=a:1"]),
    ],
)
def test_bash_completes_a_value_after_an_equals_sign(
    words: str, line: str, candidates: list[str]
) -> None:
    """Readline breaks words at = and :, and replaces only what follows the last break."""
    answer = (
        'case "${*: -1}" in --city=*) printf "%s\\n" --city=DFW --city=LHR;; '
        '*) printf "%s\\n" "${*: -1}of" "${*: -1}${*: -2:1}";; esac'
    )

    found, _ = run_in_bash(f"instances {words}", f"datumctl-compute instances {line}", answer)

    assert found == candidates


@pytest.mark.parametrize(
    "words",
    [
        ("--project", "shop", "status", ""),
        ("status", "--project=shop", ""),
        ("status", "--project", "shop", ""),
        ("ps", "--project=shop", "--workload="),
    ],
)
def test_completion_asks_the_project_that_the_line_names(words: tuple[str, ...]) -> None:
    with cli_session() as here:
        asked: list[str | None] = []

        class Noting(SessionReach):
            def find(self, env: Environment, args: Namespace) -> Destination:
                asked.append(args.project)
                return super().find(env, args)

        out = io.StringIO()
        streams = Streams(io.StringIO(), out, io.StringIO())
        main(["__complete", *words], here.env, streams, reach=Noting(here))

        assert set(asked) == {"shop"}


def test_completion_offers_files_after_an_equals_sign() -> None:
    with cli_session() as here:
        assert complete(here, "status", "--kubeconfig=")[1] == ":0"
        assert complete(here, "status", "--project=")[1] == ":4"


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_every_completion_script_runs_the_program_and_reads_its_file_directive(shell: str) -> None:
    script = SCRIPTS[shell]

    assert "__complete" in script
    assert ":0" in script


def test_a_list_of_cities_is_completed_entry_by_entry() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a:1 --city=DFW,LHR")

        assert complete(here, "deploy", "api", "--add-city", "")[0] == ["DFW", "LHR"]
        assert complete(here, "deploy", "api", "--remove-city=L")[0] == ["--remove-city=LHR"]
        assert complete(here, "deploy", "api", "--city=DFW,")[0] == ["--city=DFW,LHR"]
        assert complete(here, "deploy", "api", "--city", "LHR,D")[0] == ["LHR,DFW"]
        assert complete(here, "deploy", "api", "--waves=DFW+")[0] == ["--waves=DFW+LHR"]
        assert complete(here, "instances", "--city=DFW,")[0] == []


@pytest.mark.parametrize(
    "flag",
    [("rollout", "undo", "api", "--to-revision"), ("rollout", "history", "api", "--revision")],
)
def test_revisions_are_those_of_the_workload_on_the_line(flag: tuple[str, ...]) -> None:
    with cli_session() as here:
        here.run("deploy web --image=a:1 --city=DFW")
        here.run("deploy web --image=a:2")
        here.run("deploy api --image=a:1 --city=DFW")

        assert complete(here, *flag, "")[0] == ["1"]


def test_contexts_are_offered_where_one_is_named(tmp_path: Path) -> None:
    with cli_session(variables={"XDG_CONFIG_HOME": str(tmp_path)}) as here:
        here.run("deploy api --image=a:1 --city=DFW")
        for name in ("shop", "home"):
            assert here.run(f"context add {name} --data-dir {tmp_path}").code == 0

        assert complete(here, "context", "use", "")[0] == ["home", "shop"]
        assert complete(here, "context", "remove", "s")[0] == ["shop"]
        assert complete(here, "context", "add", "")[0] == []
        assert complete(here, "status", "--context", "")[0] == ["home", "shop"]
        assert complete(here, "--context", "")[0] == ["home", "shop"]
        assert complete(here, "projects", "create", "")[0] == []


def test_the_value_of_a_flag_before_the_command_is_no_command() -> None:
    with cli_session() as here:
        assert complete(here, "-o", "")[0] == ["table", "wide", "json", "yaml", "name"]
        assert complete(here, "--output=j")[0] == ["--output=json"]
        assert complete(here, "--project", "")[0] == []
        assert complete(here, "--kubeconfig", "") == ([], ":0")
        assert complete(here, "-o", "json", "vers")[0] == ["version"]
        assert complete(here, "--project=a", "-o", "js")[0] == ["json"]
