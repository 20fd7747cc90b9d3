"""The reference lists the fields that commands show for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from datum_compute.cli.arguments import leaf_parsers
from datum_compute.cli.main import COMMANDS, build_parser
from tests.support.paths import GOLDEN, ROOT

PAGE = (ROOT / "docs/reference/json.md").read_text(encoding="utf-8")
DOCUMENTED = set(re.findall(r"`(\w+)`", PAGE)) | {"object"}
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


def test_every_command_with_json_output_is_in_the_reference() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    listed = set(re.findall(r"`([^`]+)`", "".join(rows)))
    parsers = [
        leaf for each in COMMANDS for leaf in leaf_parsers(build_parser(each).subparsers[each])
    ]
    shown = {leaf.prog.partition(" ")[2] for leaf in parsers if "--output" in leaf.flags}

    assert len(shown) > 20
    assert sorted(shown - listed) == []


def test_every_field_of_the_json_output_is_in_the_reference() -> None:
    shown = {key for line, view in screens() if "version" not in line for key, _ in fields(view)}

    assert len(shown) > 50
    assert sorted(shown - DOCUMENTED) == []


@pytest.mark.parametrize("counter", ["ready", "upToDate", "desired", "limit", "vcpus", "memoryMiB"])
def test_numbers_are_numbers_in_the_json_output(counter: str) -> None:
    found = [value for _, view in screens() for key, value in fields(view) if key == counter]

    assert found
    assert all(isinstance(value, int | float) for value in found)


def test_what_is_missing_is_null_in_the_json_output() -> None:
    dashes = [(line, k) for line, view in screens() for k, value in fields(view) if value == "—"]

    assert dashes == []
