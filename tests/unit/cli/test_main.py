"""The command line as a whole: help, usage errors, exit codes, and what is imported."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli import resources
from datum_compute.cli.context import Streams
from datum_compute.cli.main import COMMANDS, main
from datum_compute.testing.environment import SimulatedEnvironment


def call(*argv: str, state_home: str = "/nonexistent") -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    env = SimulatedEnvironment(1, variables={"XDG_STATE_HOME": state_home})
    code = main(argv, env, Streams(io.StringIO(), out, err))
    return code, out.getvalue(), err.getvalue()


def test_no_command_explains_itself_on_stderr() -> None:
    code, out, err = call()

    assert (code, out) == (2, "")
    assert all(command in err for command in COMMANDS)


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
    ],
)
def test_wrong_usage_exits_2_and_names_the_fault(argv: tuple[str, ...]) -> None:
    code, out, err = call(*argv)

    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert "Traceback" not in err


def test_without_a_platform_the_next_command_is_named() -> None:
    code, out, err = call("instances")

    assert (code, out) == (1, "")
    assert "no local platform is running" in err
    assert "Try:  datumctl-compute local up" in err


def test_an_error_is_json_when_json_was_asked_for() -> None:
    code, _, err = call("instances", "-o", "json")

    assert code == 1
    assert json.loads(err)["error"]["code"] == "NoTarget"


def test_the_status_of_no_platform_is_an_error_in_the_form_asked_for() -> None:
    code, out, err = call("local", "status", "-o", "json")

    assert (code, out) == (5, "")
    assert json.loads(err)["error"]["code"] == "NotRunning"


def test_plain_reads_name_the_same_resources_as_the_api() -> None:
    assert resources.WORKLOADS == compute.WORKLOADS
    assert resources.WORKLOAD_DEPLOYMENTS == compute.WORKLOAD_DEPLOYMENTS
    assert resources.INSTANCES == compute.INSTANCES


@pytest.mark.parametrize("argv", [["--help"], ["instances", "--help"], ["version"]])
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    program = (
        "import sys; from datum_compute.cli.main import run\n"
        f"sys.argv = ['datumctl-compute', *{argv!r}]\n"
        "try:\n    run()\nexcept SystemExit:\n    pass\n"
        "heavy = {'asyncio', 'aiohttp', 'msgspec', 'rich', 'yaml'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
    )

    assert done.returncode == 0, done.stderr
