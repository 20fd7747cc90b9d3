"""A suggested command can be typed as printed: it exists, parses, and has the same target.

A message once named ``rollout undo`` before there was such a command.
"""

from __future__ import annotations

import ast
import io
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import datum_compute.cli
from datum_compute.cli.arguments import insert_default_action, leaf_parsers
from datum_compute.cli.context import Streams
from datum_compute.cli.errors import PROGRAM
from datum_compute.cli.explain.reasons import TEXTS, explain
from datum_compute.cli.explain.suggestions import (
    REPEATED_FLAGS,
    AddFlag,
    Command,
    Invocation,
    OtherProgram,
    Remark,
    command,
)
from datum_compute.cli.main import COMMANDS, build_parser, main
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.paths import ROOT

SOURCES = sorted(Path(datum_compute.cli.__file__).parent.rglob("*.py"))
GOLDEN = ROOT / "tests" / "cli" / "golden"
WHERE = Invocation(PROGRAM, tuple((flag, "x y") for flag in REPEATED_FLAGS))
NUMBERS = ("--to-revision", "--revision", "--port", "--router-port", "--min")


def _calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if called == name:
                    yield f"{path.stem}:{node.lineno}", node


def _word(node: ast.expr) -> str:
    """A literal as it is, anything else as a name that stands for it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "web" for part in node.values
        )
    return "web"


def _suggested() -> Iterator[tuple[str, Command]]:
    for where, call in _calls("command"):
        words = [_word(each) for each in call.args]
        for i, word in enumerate(words[1:], 1):
            words[i] = "1" if words[i - 1] in NUMBERS else word
        yield where, Command(tuple(words))


def _parse(line: str) -> None:
    words = shlex.split(line.removeprefix(PROGRAM))
    if words[-1] == "--help":
        found = build_parser(words[0] if len(words) > 1 else None)
        for word in words[:-1]:
            found = found.subparsers[word]
        assert found.format_help()
        return
    assert words[0] in COMMANDS, line
    build_parser(words[0]).parse_args(insert_default_action(words, words[0]))


def test_lesson_30_every_suggested_command_parses_with_the_flags_that_are_repeated() -> None:
    found = list(_suggested())

    assert len(found) > 20
    for where, suggestion in found:
        try:
            _parse(WHERE.render(suggestion))
        except Exception as error:
            raise AssertionError(f"{where}: {suggestion}") from error


@pytest.mark.parametrize("reason", sorted(TEXTS))
def test_lesson_30_the_next_command_of_every_reason_parses(reason: str) -> None:
    suggestion = explain(reason).next_command("web")

    if suggestion is not None:
        assert "{" not in str(suggestion)
        _parse(WHERE.render(suggestion))


def test_every_flag_that_is_suggested_exists() -> None:
    flags = {
        flag
        for name in COMMANDS
        for leaf in leaf_parsers(build_parser(name))
        for flag in leaf.flags
    }
    named = {
        call.args[0].value
        for _, call in _calls("AddFlag")
        if isinstance(call.args[0], ast.Constant)
    }

    assert "--image" in named
    assert named <= flags


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_every_command_can_be_printed(name: str) -> None:
    """A percent sign in a help text must be doubled, and what is missing is not printed."""
    parser = build_parser(name)
    for each in (parser, parser.subparsers[name], *leaf_parsers(parser)):
        assert "None" not in each.format_help()


def _lines_to_try() -> set[str]:
    """On the recorded screens: what follows ``Try:`` and ``Next``, and the lines below."""
    found = set()
    for path in sorted(GOLDEN.rglob("*.txt")):
        for line in path.read_text().splitlines():
            text = line.removeprefix("▌").removeprefix("Try:").removeprefix("Next")
            if text.startswith("  ") and text.lstrip().startswith(f"{PROGRAM} "):
                text = text.strip()
                found.add(text.partition(" > ")[0])
    return found


def test_every_command_on_a_recorded_screen_parses() -> None:
    found = _lines_to_try()

    assert len(found) > 20
    for line in sorted(found):
        _parse(line.replace(" PORT", " 1").replace(" N", " 1"))


def test_no_text_contains_the_name_of_the_program() -> None:
    """A text with the program's name in it would be wrong under another name."""
    texts = {
        f"{path.name}: {node.value}"
        for path in SOURCES
        if path.name != "plugin.py" and path.parent.name != "completion"  # they print it as data
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and f"{PROGRAM} " in node.value
    }

    assert not texts


@pytest.mark.parametrize("argv", [["--help"], ["rollout", "--help"], ["rollout", "undo", "--help"]])
def test_help_names_the_program_as_typed(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(argv, SimulatedEnvironment(1), _streams(io.StringIO()), "datumctl compute")

    shown = capsys.readouterr().out
    assert shown.startswith("usage: datumctl compute")
    assert PROGRAM not in shown


@pytest.mark.parametrize(
    ("suggestion", "text"),
    [
        (command("status", "web"), "datumctl compute status web --project p --data-dir 'a b'"),
        (
            command("workloads", "--project", "q"),
            "datumctl compute workloads --project q --data-dir 'a b'",
        ),
        (command("status", "--help"), "datumctl compute status --help"),
        (AddFlag("--image", "IMAGE"), "--image IMAGE"),
        (AddFlag("--yes"), "--yes"),
        (OtherProgram(("datumctl", "login")), "datumctl login"),
        (Remark("check --server"), "check --server"),
    ],
)
def test_a_suggestion_is_rendered_with_the_target_flags(
    suggestion: Command | AddFlag | OtherProgram | Remark, text: str
) -> None:
    typed = ["status", "web", "--project=p", "--data-dir", "a b", "--", "--server", "x"]

    assert Invocation.of("datumctl compute", typed).render(suggestion) == text


def test_a_token_is_never_repeated() -> None:
    typed = ["status", "web", "--server", "api", "--token", "secret", "--project", "p"]

    line = Invocation.of(PROGRAM, typed).render(command("why", "web"))

    assert line == f"{PROGRAM} why web --server api --token TOKEN --project p"
    assert "secret" not in Invocation.of(PROGRAM, ["--token=secret"]).render(command("quota"))


def test_commands_of_the_local_platform_take_no_server() -> None:
    typed = ["status", "--server", "api", "--data-dir", "d", "--kubeconfig", "k"]

    line = Invocation.of(PROGRAM, typed).render(command("local", "status"))

    assert line == f"{PROGRAM} local status --data-dir d"


@pytest.mark.parametrize("output", [[], ["-o", "json"]])
def test_hints_keep_the_project_and_the_state_directory(output: list[str], tmp_path: Path) -> None:
    err = io.StringIO()
    where = ["--project", "shop", "--data-dir", str(tmp_path)]

    main(["instances", *where, *output], SimulatedEnvironment(1), _streams(err), "bin/compute")

    assert f"bin/compute local up --detach {' '.join(where)}" in err.getvalue()


def _streams(err: io.StringIO) -> Streams:
    return Streams(io.StringIO(), io.StringIO(), err)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("0", "stop api"), ("-3", "stop api"), ("1001", "scale api --min 1000")],
)
def test_a_minimum_out_of_range_names_the_range_and_what_was_probably_meant(
    typed: str, offered: str
) -> None:
    err = io.StringIO()
    argv = ["scale", "api", f"--min={typed}", "--data-dir", "/tmp/x"]

    code = main(argv, SimulatedEnvironment(), Streams(io.StringIO(), io.StringIO(), err))

    assert code == 2
    assert err.getvalue() == (
        f"Error: --min {typed}: expected a number from 1 to 1000\n"
        f"Try:  datumctl-compute {offered} --data-dir /tmp/x\n"
    )
