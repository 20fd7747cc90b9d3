"""Lesson 30: a message named ``rollout undo``, a command that did not exist.

So: every command that is named anywhere exists and can be typed as it stands.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import datum_compute
from datum_compute.cli.arguments import insert_default_action
from datum_compute.cli.explain.reasons import TEXTS, explain
from datum_compute.cli.main import COMMANDS, build_parser

SOURCE = Path(datum_compute.__file__).parent
NAMED = re.compile(r"datumctl-compute((?: [a-z][a-z-]*)+)")
"""The program's name and the plain words after it."""


def _named() -> set[str]:
    found: set[str] = set()
    for path in sorted((SOURCE / "cli").rglob("*.py")):
        found |= {match.strip() for match in NAMED.findall(path.read_text())}
    return found


def test_lesson_30_every_command_in_a_message_is_one_there_is() -> None:
    named = _named()
    assert named
    for words in sorted(named):
        assert words.split()[0] in COMMANDS, words


@pytest.mark.parametrize("reason", sorted(TEXTS))
def test_lesson_30_the_next_step_of_every_reason_can_be_typed(reason: str) -> None:
    command = explain(reason).next_command("web")
    program, *words = command.split() or ["datumctl-compute", "why", "web"]

    assert program == "datumctl-compute"
    assert not re.search(r"[{}]", command)
    build_parser(words[0]).parse_args(insert_default_action(words, words[0]))


def test_lesson_30_no_message_offers_an_action_that_does_not_exist() -> None:
    """Of a command with actions, the word after it is one of them."""
    for words in sorted(_named()):
        command, *more = words.split()
        actions = build_parser(command).subparsers[command].subparsers
        assert not actions or not more or more[0] in actions, words
