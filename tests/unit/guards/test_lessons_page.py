"""The page of lessons and the tests agree: each lesson has tests, and the page names the files."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

PAGE = ROOT / "docs/develop/lessons.md"
LESSONS = 33


def files_by_lesson() -> dict[str, set[str]]:
    """Number of a lesson -> the files with a ``test_lesson_NN_`` of it."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for number in re.findall(r"^(?:async )?def test_lesson_(\d\d)_", path.read_text(), re.M):
            found.setdefault(number, set()).add(str(path.relative_to(ROOT)))
    return found


def files_on_page() -> dict[str, set[str]]:
    rows = re.findall(r"^\| (\d\d) \|.*\| (.*) \|$", PAGE.read_text(), re.M)
    return {number: set(re.findall(r"`(tests/[^`]+)`", files)) for number, files in rows}


def test_every_lesson_has_a_test() -> None:
    assert set(files_by_lesson()) == {f"{number:02}" for number in range(1, LESSONS + 1)}


def test_the_page_names_the_files_of_each_lesson() -> None:
    assert files_on_page() == files_by_lesson()
