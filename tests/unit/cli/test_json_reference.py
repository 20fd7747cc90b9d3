"""The reference lists the fields that commands show for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from datum_compute.cli.arguments import DEFAULT_ACTIONS, leaf_parsers
from datum_compute.cli.main import COMMANDS, build_parser
from tests.support.paths import GOLDEN, ROOT

PAGE = (ROOT / "docs/reference/json.md").read_text(encoding="utf-8")
PARSERS = {
    leaf.prog.partition(" ")[2]: leaf
    for each in COMMANDS
    for leaf in leaf_parsers(build_parser(each).subparsers[each])
}
OUTPUT = re.compile(
    r"^\$ datumctl-compute (.*-o json.*)\n((?:▌.*\n)*)([\[{]\n(?:.*\n)*?[\]}])$", re.MULTILINE
)


def screens() -> Iterator[tuple[str, Any]]:
    for file in sorted(GOLDEN.glob("*_screens/*.txt")):
        for found in OUTPUT.finditer(file.read_text(encoding="utf-8")):
            yield found[1], json.loads(found[3])


def fields(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from fields(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key, each
            if key not in ("object", "spec", "data"):
                yield from fields(each)


def documented(line: str) -> set[str]:
    """The fields that the reference names for this command line, and those of every view."""
    words = line.split()
    action, _ = DEFAULT_ACTIONS.get(words[0], ("", frozenset()))
    names = (" ".join(words[:2]), words[0], f"{words[0]} {action}")
    parser = next(PARSERS[name] for name in names if name in PARSERS)
    return set(re.findall(r"`(\w+)`", PAGE + parser.json_fields)) | {"object"}


def test_every_command_with_json_output_lists_its_fields() -> None:
    with_output = {name for name, leaf in PARSERS.items() if "--output" in leaf.flags}

    assert len(with_output) > 20
    assert with_output == {name for name, leaf in PARSERS.items() if leaf.json_fields}


def test_every_field_of_the_json_output_is_in_the_reference() -> None:
    shown = [(line, key) for line, view in screens() for key, _ in fields(view)]

    assert len({key for _, key in shown}) > 50
    assert [each for each in shown if each[1] not in documented(each[0])] == []


@pytest.mark.parametrize("counter", ["ready", "upToDate", "desired", "limit", "vcpus", "memoryMiB"])
def test_numbers_are_numbers_in_the_json_output(counter: str) -> None:
    found = [value for _, view in screens() for key, value in fields(view) if key == counter]

    assert found
    assert all(isinstance(value, int | float) for value in found)


def test_what_is_missing_is_null_in_the_json_output() -> None:
    dashes = [(line, k) for line, view in screens() for k, value in fields(view) if value == "—"]

    assert dashes == []


@pytest.mark.parametrize(
    "command",
    [
        *("deploy", "scale", "stop", "start", "restart", "destroy", "rollout undo"),
        "rollout history",
        "why",
    ],
)
def test_a_field_without_a_value_is_there(command: str) -> None:
    fields = re.sub(r"\s*\([^)]*\)", "", PARSERS[command].json_fields).partition(";")[0]
    expected = {*re.findall(r"`(\w+)`", fields), "object"}
    shown = [
        (line, each)
        for line, view in screens()
        if line.startswith(command)
        for each in (view if isinstance(view, list) else [view])
    ]

    assert shown
    assert [(line, expected - set(each)) for line, each in shown if expected - set(each)] == []
