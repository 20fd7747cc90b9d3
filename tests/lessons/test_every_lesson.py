"""Every lesson of the past has a test of its name: ``test_lesson_NN_`` and what must hold."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
LESSONS = 33


def test_every_lesson_has_a_test_of_its_name() -> None:
    named = {
        int(number)
        for path in HERE.glob("test_lesson_*.py")
        for number in re.findall(r"^(?:async )?def test_lesson_(\d\d)_", path.read_text(), re.M)
    }

    assert named == set(range(1, LESSONS + 1))


def test_a_file_is_about_the_lesson_in_its_name() -> None:
    for path in sorted(HERE.glob("test_lesson_*.py")):
        number = path.name.split("_")[2]
        found = set(re.findall(r"^(?:async )?def test_lesson_(\d\d)_", path.read_text(), re.M))
        assert found == {number}, path.name
        assert path.read_text().startswith(f'"""Lesson {int(number)}: '), path.name
