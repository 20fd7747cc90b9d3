"""The page about the command line has every command, flag and exit code, each explained."""

from __future__ import annotations

import argparse

import pytest

from datum_compute.cli.arguments import leaf_parsers
from datum_compute.cli.errors import Exit
from datum_compute.cli.main import COMMANDS, build_parser
from scripts import cli_reference

PAGE = cli_reference.rendered()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_listed_with_all_its_arguments(command: str) -> None:
    section = PAGE.partition(f"\n## {command}\n")[2].partition("\n## ")[0]
    general = PAGE.partition("\n## Shared flags\n")[2].partition("\n## ")[0]

    assert COMMANDS[command] in section
    for leaf in leaf_parsers(build_parser(command).subparsers[command]):
        assert leaf.prog in section
        for action in leaf._actions:
            if action.help == argparse.SUPPRESS:
                continue
            assert action.help, f"{leaf.prog} {action.dest} is not explained"
            names = action.option_strings or [str(action.metavar or action.dest.upper())]
            for name in names:
                assert f"`{name.replace('|', chr(92) + '|')}`" in section + general


@pytest.mark.parametrize("code", list(Exit))
def test_an_exit_code_is_explained(code: Exit) -> None:
    assert f"\n| {int(code)} | " in PAGE


def test_links_lead_to_a_heading() -> None:
    for command in COMMANDS:
        assert f"](#{command})" in PAGE
        assert f"\n## {command}\n" in PAGE
