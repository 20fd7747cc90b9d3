"""The command line as a whole: help, usage errors, exit codes, and what is imported."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from datum_compute.cli.arguments import DEFAULT_ACTIONS
from datum_compute.cli.context import Streams
from datum_compute.cli.explain.synonyms import NEIGHBOURS
from datum_compute.cli.main import COMMANDS, main
from datum_compute.testing.environment import SimulatedEnvironment


def call(*argv: str, state_home: str = "/nonexistent") -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    env = SimulatedEnvironment(1, variables={"XDG_STATE_HOME": state_home})
    code = main(argv, env, Streams(io.StringIO(), out, err))
    return code, out.getvalue(), err.getvalue()


def test_a_call_without_a_command_prints_help_on_stderr() -> None:
    code, out, err = call()

    assert (code, out) == (2, "")
    assert all(command in err for command in COMMANDS)
    assert "None" not in err


@pytest.mark.parametrize(
    "words",
    [
        *((each,) for each in sorted({*DEFAULT_ACTIONS, "local"})),
        ("local", "user"),
        ("status",),
        (),
    ],
)
@pytest.mark.parametrize("flag", ["--data-dir", "--project", "-o"])
def test_help_is_printed_with_a_flag_before_or_after_it(
    words: tuple[str, ...], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in ((*words, "--help", flag, "dir"), (flag, "dir", *words, "--help")):
        with pytest.raises(SystemExit, match="0"):
            call(*argv)

        title = " ".join(("usage: datumctl-compute", *words))
        assert capsys.readouterr().out.startswith(title), argv


@pytest.mark.parametrize(
    "argv",
    [
        ("fly",),
        ("status",),
        ("scale", "api"),
        ("scale", "api", "--min", "0"),
        ("scale", "api", "--min", "many"),
        ("instances", "-o", "xml"),
        ("deploy", "api", "--timeout", "soon"),
        ("deploy",),
        ("deploy", "-f", "x.yaml", "--image", "a:1"),
        ("local", "up", "--cities", "hub"),
        ("local", "up", "--grant", "gold=1"),
        ("local", "up", "--port", "70000"),
        ("local", "up", "--cities", ""),
        ("local", "up", "--cities", "ÄÖÜ"),
        ("local", "up", "--grant", ""),
        ("local", "up", "--grant", "instances=٣"),
        ("local", "up", "--project", ""),
        ("local", "up", "--data-dir", ""),
        ("instances", "--data-dir", ""),
        ("deploy", "a", "-o", "xml"),
        ("scale", "a", "--min", "1", "-o", "xml"),
        ("destroy", "a", "-o", "xml"),
        ("local", "status", "-o", "xml"),
        ("status", "api", "--server", "example.com"),
        ("workloads", "-o", "xml"),
        ("workloads", "--health", "fine"),
        ("workloads", "describe"),
        ("workloads", "describe", "api", "--city", "DFW"),
        ("rollout",),
        ("rollout", "status"),
        ("quota", "-o", "xml"),
        ("cities", "-o", "xml"),
        ("instance-types", "-o", "xml"),
        ("why",),
        ("logs", "--tail", "few"),
        ("logs", "--since", "soon"),
        ("completion", "tcsh"),
        ("version", "-o", "xml"),
    ],
)
def test_a_usage_error_exits_2_and_names_the_fault(argv: tuple[str, ...]) -> None:
    code, out, err = call(*argv)

    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert "Traceback" not in err


def test_without_a_platform_the_next_command_is_named() -> None:
    code, out, err = call("instances")

    assert (code, out) == (1, "")
    assert "no local platform is running" in err
    assert "Try:  datumctl-compute local up" in err


def test_an_error_is_json_with_output_json() -> None:
    code, _, err = call("instances", "-o", "json")

    assert code == 1
    assert json.loads(err)["error"]["code"] == "NoTarget"


def test_local_status_without_a_platform_is_an_error_in_the_requested_format() -> None:
    code, out, err = call("local", "status", "-o", "json")

    assert (code, out) == (5, "")
    assert json.loads(err)["error"]["code"] == "NotRunning"


QUICK = [["--help"], ["version"], ["completion", "bash"], ["__complete", "dep"]]
HEAVY = ("asyncio", "httptools", "msgspec", "rich", "yaml")


def test_help_and_completion_import_nothing_heavy() -> None:
    """In a fresh process, one command after the other; the first one to load it is named."""
    argvs = QUICK + [[command, "--help"] for command in COMMANDS]
    program = (
        "import sys; from datum_compute.cli.main import run\n"
        f"for argv in {argvs!r}:\n"
        "    sys.argv = ['datumctl-compute', *argv]\n"
        "    try:\n        run()\n    except SystemExit:\n        pass\n"
        f"    heavy = set({HEAVY!r}) & set(sys.modules)\n"
        "    if heavy:\n        sys.exit(f'{argv} imported {sorted(heavy)}')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (("ps", "--help"), ("instances", "--help")),
        (("regions", "--help"), ("cities", "--help")),
        (("releases", "--help"), ("rollout", "history", "--help")),
        (("rollback", "--help"), ("rollout", "undo", "--help")),
        (("delete", "--help"), ("destroy", "--help")),
        (("help",), ("--help",)),
        (("help", "deploy"), ("deploy", "--help")),
        (("help", "rollout", "history"), ("rollout", "history", "--help")),
        (("help", "ps"), ("instances", "--help")),
    ],
)
def test_a_word_that_means_the_same_elsewhere_is_our_command(
    words: tuple[str, ...], ours: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for each in (words, ours):
        with pytest.raises(SystemExit, match="0"):
            call(*each)
        shown.append(capsys.readouterr().out)

    assert shown[0] == shown[1] != ""


@pytest.mark.parametrize("word", sorted(NEIGHBOURS))
def test_a_word_of_another_program_names_what_the_user_may_look_for(word: str) -> None:
    code, out, err = call(word, "x", "--data-dir", "/tmp/x")

    assert (code, out) == (2, "")
    assert err.startswith(f'Error: unknown command "{word}"; did you mean "')
    assert "--data-dir /tmp/x" in err
    assert word not in COMMANDS


def test_login_does_not_suggest_logs() -> None:
    assert call("login")[2] == (
        'Error: unknown command "login"; did you mean "access"? (to sign in, use datumctl)\n'
        "Try:  datumctl-compute access\n"
    )


@pytest.mark.parametrize("flag", ["--data-dir", "--project", "-o"])
def test_a_flag_without_a_command_after_it_is_refused_as_such(flag: str) -> None:
    message = f"Error: {flag}: expected a value and a command after it\n"

    for words in ([flag], [flag, "x"], [f"{flag}=x"]):
        code, out, err = call(*words)
        assert (code, out) == (2, "")
        assert err == f"{message}Try:  datumctl-compute --help\n"
