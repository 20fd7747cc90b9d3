"""The page about stand-ins and the tests agree: no row without its test, and no test
of a fact without its row."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

HERE = Path(__file__).parent
TESTS = ROOT / "tests"
PAGE = ROOT / "docs/develop/stand-in-facts.md"
LEFT_OUT = "left out: "


def rows() -> list[tuple[str, str]]:
    """Each fact and its tests, from every table with that header."""
    found: list[tuple[str, str]] = []
    inside = False
    for line in PAGE.read_text().splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if cells == ["Fact", "Kept by"]:
            inside = True
        elif inside and not set(cells[0]) <= set("- "):
            fact, kept = cells
            found.append((fact, kept))
    return found


_TEST = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
"""Parsing every module of the tests takes a hundred times as long."""


def names_of(path: Path) -> set[str]:
    return set(_TEST.findall(path.read_text()))


@cache
def known() -> set[str]:
    return set[str]().union(*(names_of(path) for path in sorted(TESTS.rglob("test_*.py"))))


def named(kept: str) -> list[str]:
    return re.findall(r"`(test_\w+)`", kept)


@pytest.mark.parametrize(("fact", "kept"), rows(), ids=lambda cell: cell[:60])
def test_every_fact_names_an_existing_test_or_a_reason_for_having_none(
    fact: str, kept: str
) -> None:
    assert fact
    if kept.startswith(LEFT_OUT):
        assert len(kept.removeprefix(LEFT_OUT).split()) >= 3, "give the reason"
    else:
        assert named(kept), "neither a test nor a reason"
        assert not set(named(kept)) - known()


def test_every_test_of_a_fact_has_its_row() -> None:
    on_page = {name for _, kept in rows() for name in named(kept)}

    for path in sorted([*HERE.rglob("test_facts_*.py"), *HERE.rglob("test_facts.py")]):
        if path.name != Path(__file__).name:
            assert not names_of(path) - on_page, path.name


def test_no_fact_is_listed_twice() -> None:
    facts = [fact for fact, _ in rows()]

    assert sorted(set(facts)) == sorted(facts)
