"""The command line's shape: default actions, flags as they are written, and that what is
suggested can be typed."""

from __future__ import annotations

import argparse
import os

import pytest

from datum_compute.cli.arguments import (
    DEFAULT_ACTIONS,
    FLAGS_ELSEWHERE,
    LEADING_FLAGS,
    Parser,
    insert_default_action,
    leaf_parsers,
    move_leading_flags,
)
from datum_compute.cli.errors import CommandError, Exit
from datum_compute.cli.explain.suggestions import Command
from datum_compute.cli.main import COMMANDS, build_parser


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("workloads", "workloads list"),
        ("workloads --city DFW", "workloads list --city DFW"),
        ("workloads describe api", "workloads describe api"),
        ("instances -o json", "instances list -o json"),
        ("rollout api", "rollout status api"),
        ("rollout status api", "rollout status api"),
        ("rollout --help", "rollout --help"),
        ("status api", "status api"),
    ],
)
def test_the_default_action_is_inserted(typed: str, meant: str) -> None:
    words = typed.split()

    assert insert_default_action(words, words[0]) == meant.split()


@pytest.mark.parametrize(
    "words",
    [
        "deploy api --image=api:2",
        "scale api --min 2",
        "restart api",
        "rollout undo api",
        "access request",
    ],
)
def test_a_message_that_is_not_text_is_refused(words: str) -> None:
    command, *rest = words.split()

    with pytest.raises(CommandError, match="--message: not UTF-8 text") as refusal:
        build_parser(command).parse_args([command, *rest, "--message", os.fsdecode(b"\xff")])

    assert refusal.value.exit_code is Exit.USAGE


@pytest.mark.parametrize("command", sorted(DEFAULT_ACTIONS))
def test_the_actions_listed_for_a_command_exist(command: str) -> None:
    default, actions = DEFAULT_ACTIONS[command]

    found = build_parser(command).subparsers[command].subparsers

    assert set(found) == set(actions)
    assert default in actions


@pytest.mark.parametrize(
    ("typed", "expected", "hint"),
    [
        (
            "deploy a --imag=b",
            'unknown flag "--imag"; did you mean --image?',
            "datumctl-compute deploy --help",
        ),
        (
            "scale a --mi 3",
            'unknown flag "--mi"; did you mean --min?',
            "datumctl-compute scale --help",
        ),
        (
            "rollout undo a --to-rev 3",
            'unknown flag "--to-rev"; did you mean --to-revision?',
            "datumctl-compute rollout undo --help",
        ),
        (
            "local up --deta",
            'unknown flag "--deta"; did you mean --detach?',
            "datumctl-compute local up --help",
        ),
        ("--vers", 'unknown flag "--vers"; did you mean --version?', "datumctl-compute --help"),
        ("status a --zzz", 'unknown flag "--zzz"', "datumctl-compute status --help"),
        (
            "scale a --replicas=3",
            'unknown flag "--replicas"; did you mean --min?',
            "datumctl-compute scale --help",
        ),
        (
            "logs a --region DFW",
            'unknown flag "--region"; did you mean --city?',
            "datumctl-compute logs --help",
        ),
        ("status a --replicas 3", 'unknown flag "--replicas"', "datumctl-compute status --help"),
        ("scale a --city LHR", 'unknown flag "--city"', "datumctl-compute scale --help"),
        ("status a b", "unexpected argument: b", "datumctl-compute status --help"),
        (
            "instances a",
            "unexpected argument: a",
            "datumctl-compute instances describe a | datumctl-compute instances --workload a",
        ),
        ("config a", "unexpected argument: a", "datumctl-compute config show a"),
        ("secrets a", "unexpected argument: a", "datumctl-compute secrets list --help"),
        ("workloads a b", "unexpected arguments: a b", "datumctl-compute workloads list --help"),
        ("status a -z", 'unknown flag "-z"', "datumctl-compute status --help"),
        ("logs -o json a", 'unknown flag "-o"', "datumctl-compute logs --help"),
    ],
)
def test_a_flag_is_never_guessed_but_the_nearest_is_named(
    typed: str, expected: str, hint: str
) -> None:
    words = typed.split()
    command = words[0] if words[0] in COMMANDS else None

    with pytest.raises(CommandError) as raised:
        build_parser(command).parse_args(insert_default_action(words, command))

    assert raised.value.message == expected
    assert raised.value.suggestions == tuple(
        Command(tuple(each.split()[1:])) for each in hint.split(" | ")
    )
    assert raised.value.exit_code is Exit.USAGE


def test_flags_of_other_programs_lead_to_flags_that_exist() -> None:
    leaves = [
        leaf
        for command in COMMANDS
        for leaf in leaf_parsers(build_parser(command).subparsers[command])
    ]

    for theirs, ours in FLAGS_ELSEWHERE.items():
        leading = [leaf for leaf in leaves if ours in leaf.flags and theirs not in leaf.flags]
        assert leading, theirs
        for leaf in leading:
            with pytest.raises(CommandError, match=f"did you mean {ours}"):
                leaf.parse_known_args([theirs])


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_no_command_accepts_an_abbreviated_flag(command: str) -> None:
    for leaf in leaf_parsers(build_parser(command).subparsers[command]):
        for flag in [each for each in leaf.flags if len(each) > 4]:
            with pytest.raises(CommandError, match="unknown flag"):
                leaf.parse_known_args([flag[:-1]])


READS = {
    *("status", "why", "workloads list", "workloads describe", "instances list"),
    *("instances describe", "open", "logs", "exec", "ssh", "console", "rollout status"),
    *("rollout history", "config list", "config show", "secrets list", "quota", "cities"),
    *("instance-types", "access status", "projects list", "completion", "version"),
}
OF_THIS_MACHINE = ("context ", "local ")
"""Commands that write files of this machine, or control its platform."""


def test_every_command_that_writes_accepts_yes() -> None:
    asking = {
        leaf.prog.removeprefix("datumctl-compute "): "--yes" in leaf.flags
        for command in COMMANDS
        for leaf in leaf_parsers(build_parser(command).subparsers[command])
    }

    assert asking.keys() >= READS
    assert {
        name
        for name, asks in asking.items()
        if not asks and name not in READS and not name.startswith(OF_THIS_MACHINE)
    } == set()


def test_a_value_may_look_like_a_flag_when_it_is_joined_to_its_own() -> None:
    args = build_parser("deploy").parse_args(["deploy", "a", "--arg=--verbose", "--env=A=--b c"])

    assert (args.container_args, args.env) == (["--verbose"], ["A=--b c"])


def test_a_word_after_a_flag_is_its_value_unless_it_is_a_flag_of_the_command() -> None:
    words = ["a", "--command", "/bin/sh", "--arg", "-c", "--arg", "x", "--arg", "--verbose"]
    args = build_parser("deploy").parse_args(["deploy", *words, "--arg", "-ok", "--arg", "-1"])

    assert args.container_command == ["/bin/sh"]
    assert args.container_args == ["-c", "x", "--verbose", "-ok", "-1"]


@pytest.mark.parametrize("word", ["--image", "--image=x", "-f", "-h"])
def test_a_flag_of_the_command_is_no_value_unless_it_is_joined(word: str) -> None:
    with pytest.raises(CommandError) as raised:
        build_parser("deploy").parse_args(["deploy", "a", "--arg", word, "x"])

    assert raised.value.message == (
        f"--arg: expected a value, found the flag {word}; to pass it as a value, write --arg={word}"
    )
    assert raised.value.exit_code is Exit.USAGE


def test_a_value_that_looks_like_a_flag_is_still_checked() -> None:
    with pytest.raises(CommandError, match='--timeout: "-5s" is not a duration'):
        build_parser("scale").parse_args(["scale", "a", "--min", "2", "--timeout", "-5s"])


def test_only_commands_that_wait_for_a_rollout_speak_of_waves_at_their_timeout() -> None:
    longer = {
        leaf.prog.removeprefix("datumctl-compute ")
        for command in COMMANDS
        for leaf in leaf_parsers(build_parser(command).subparsers[command])
        for action in leaf.arguments
        if "--timeout" in action.option_strings and "waves" in str(action.help)
    }

    assert longer == {
        *("deploy", "scale", "start", "restart"),
        *("rollout status", "rollout undo", "rollout restart"),
    }


def test_a_duration_too_long_to_count_is_refused() -> None:
    with pytest.raises(CommandError, match=r'--timeout: "9{400}h" is not a duration'):
        build_parser("scale").parse_args(["scale", "a", "--timeout", "9" * 400 + "h"])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--project acme status api", "status api --project acme"),
        ("--project=acme -o json instances", "instances --project=acme -o json"),
        ("--kubeconfig f rollout history api", "rollout history api --kubeconfig f"),
        ("--project local deploy x -- --project y", "deploy x --project local -- --project y"),
        ("status api --project acme", "status api --project acme"),
        ("--project", "--project"),
        ("", ""),
    ],
)
def test_common_flags_may_precede_the_command(typed: str, meant: str) -> None:
    assert move_leading_flags(typed.split()) == meant.split()


def test_every_target_flag_may_precede_the_command() -> None:
    [leaf] = leaf_parsers(build_parser("status").subparsers["status"])

    assert {flag for action in leaf.target_flags for flag in action.option_strings} <= LEADING_FLAGS


@pytest.mark.parametrize("program", ["datumctl-compute", ".venv/bin/datumctl-compute", "py -m x"])
@pytest.mark.parametrize("words", [["quota"], ["rollout", "history"]])
def test_usage_names_the_program_once_as_it_was_typed(program: str, words: list[str]) -> None:
    parser = build_parser(words[0], program=program)
    for word in words:
        parser = parser.subcommands.choices[word]

    usage = " ".join(parser.format_usage().split())

    assert usage.startswith(f"usage: {program} {' '.join(words)} [-h]")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_flag_that_takes_one_value_is_refused_with_another(command: str) -> None:
    for leaf in leaf_parsers(build_parser(command).subparsers[command]):
        assert isinstance(leaf, Parser)
        single = [
            action
            for action in leaf.arguments
            if action.option_strings and action.nargs is None and not _is_repeatable(action)
        ]
        for action in single:
            action.type, flag = None, action.option_strings[0]
            words = [f"{flag}=a", f"{flag}=b"]
            if leaf.prog.endswith(" exec"):
                words.append("--")

            with pytest.raises(CommandError, match=f"{flag} takes one value") as refusal:
                leaf.parse_args(words)

            assert refusal.value.exit_code is Exit.USAGE


def _is_repeatable(action: argparse.Action) -> bool:
    return type(action) is type(argparse.ArgumentParser().add_argument("--x", action="append"))


def test_the_same_value_again_is_none_too_many() -> None:
    words = ["deploy", "a", "--project=a", "--min=2", "--project", "a", "--min", "2"]

    found = build_parser("deploy").parse_args(words)

    assert (found.project, found.minimum) == ("a", 2)


@pytest.mark.parametrize(
    "typed", ["--project a deploy x --project b", "deploy x --image=a --image=b"]
)
def test_the_last_of_several_values_does_not_win(typed: str) -> None:
    with pytest.raises(CommandError, match="takes one value and was given several"):
        build_parser("deploy").parse_args(move_leading_flags(typed.split()))
