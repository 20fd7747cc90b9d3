"""Help shows examples that work: each of them is run."""

from __future__ import annotations

import argparse
import io
import shlex
from collections.abc import Iterator

import pytest

from datum_compute.cli.arguments import insert_default_action, leaf_parsers
from datum_compute.cli.context import Streams
from datum_compute.cli.main import COMMANDS, build_parser, main
from tests.support.cli.session import CliSession, SessionReach, cli_session
from tests.support.cli.terminal import Terminal
from tests.support.console import served_console
from tests.support.providers.commands import ScriptedCommands

NEED_A_PROCESS = ("local", "context")
"""Their examples start and stop processes, or are about files of the user; parsing is all that is
done with them here."""


def commands() -> Iterator[argparse.ArgumentParser]:
    for name in COMMANDS:
        yield from leaf_parsers(build_parser(name).subparsers[name])


def examples_of(parser: argparse.ArgumentParser) -> list[str]:
    lines = (parser.epilog or "").splitlines()
    return [line.strip() for line in lines if line.startswith("  datumctl-compute ")]


def words(example: str) -> list[str]:
    return shlex.split(example.partition(" > ")[0])[1:]


EXAMPLES = [example for parser in commands() for example in examples_of(parser)]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_two_or_three_examples(command: str) -> None:
    for leaf in leaf_parsers(build_parser(command).subparsers[command]):
        assert 2 <= len(examples_of(leaf)) <= 3, leaf.prog


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_can_be_parsed(example: str) -> None:
    argv = words(example)

    build_parser(argv[0]).parse_args(insert_default_action(argv, argv[0]))


class Agrees(io.StringIO):
    """A user at a terminal who answers yes to every prompt."""

    def isatty(self) -> bool:
        return True


def runs(here: CliSession, example: str) -> str:
    out, err = io.StringIO(), Terminal()
    streams = Streams(Agrees("y\n"), out, err)
    code = main(words(example), here.env, streams, reach=SessionReach(here))
    return "" if code == 0 else f"{example}: exit {code}: {err.screen}"


def test_every_example_runs() -> None:
    with cli_session("DFW", "IAD", "LHR", router_port=7480) as here, served_console(here):
        here.logs = {f"hello-default-{city}-0/log": "" for city in ("dfw", "iad", "lhr")}
        deploy = "deploy hello --image=a:1 --city=DFW,IAD,LHR --waves=each --http-port=80"
        assert here.run(deploy).code == 0
        for cell in ("dfw", "iad", "lhr"):
            here.platform.providers.set_provider(cell, ScriptedCommands())
        failed = []
        for example in EXAMPLES:
            if words(example)[0] in NEED_A_PROCESS:
                continue
            aborts = words(example)[:2] == ["rollout", "abort"]
            if aborts:
                assert here.run("deploy hello --image=a:9 --no-wait").code == 0
            failed.append(runs(here, example))
            if aborts:
                assert here.run("rollout undo hello --yes").code == 0
            if words(example)[0] == "destroy":
                assert here.run(deploy).code == 0

        assert [each for each in failed if each] == []
