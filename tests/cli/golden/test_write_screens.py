"""Every screen of a command that writes is as it was last read by a person."""

from __future__ import annotations

import pytest

from tests.support.cli.write_screens import FILES, SCENES


@pytest.mark.parametrize("name", sorted(SCENES))
def test_write_screens_match_the_golden_files(name: str) -> None:
    agreed = (FILES / f"{name}.txt").read_text(encoding="utf-8")

    assert SCENES[name].transcript() == agreed, (
        "if it is meant: python -m tests.support.cli.write_screens"
    )


def test_every_file_of_a_change_belongs_to_a_scene() -> None:
    assert {file.stem for file in FILES.glob("*.txt")} == set(SCENES)


@pytest.mark.parametrize("name", sorted(SCENES))
def test_no_screen_of_a_change_shows_what_only_machines_need(name: str) -> None:
    text = (FILES / f"{name}.txt").read_text(encoding="utf-8")

    assert "\x1b" not in text
    assert "Traceback" not in text
    assert "miloapis.com" not in text
    assert "fault of the program" not in text
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
