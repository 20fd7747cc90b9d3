"""The command line's shape: default actions, and that what is suggested can be typed."""

from __future__ import annotations

import re

import pytest

from datum_compute.cli.arguments import DEFAULT_ACTIONS, subparsers_of, with_default_action
from datum_compute.cli.main import COMMANDS, build_parser
from datum_compute.decisions.reasons import CATALOGUE


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
def test_the_action_people_leave_out_is_put_in(typed: str, meant: str) -> None:
    words = typed.split()

    assert with_default_action(words, words[0]) == meant.split()


@pytest.mark.parametrize("command", sorted(DEFAULT_ACTIONS))
def test_the_actions_named_for_a_command_are_those_it_has(command: str) -> None:
    default, actions = DEFAULT_ACTIONS[command]

    found = subparsers_of(subparsers_of(build_parser(command))[command])

    assert set(found) == set(actions)
    assert default in actions


SUGGESTED = sorted({each.command for each in CATALOGUE.values() if each.command})


@pytest.mark.parametrize("template", SUGGESTED)
def test_every_command_the_catalogue_suggests_exists(template: str) -> None:
    words = template.replace("{workload}", "web").split()

    assert words[0] == "datumctl-compute"
    args = build_parser(words[1]).parse_args(with_default_action(words[1:], words[1]))
    assert args.command == words[1]
    assert args.command in COMMANDS
    assert not re.search(r"[{}]", " ".join(words))
