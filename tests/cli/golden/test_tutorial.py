"""What the tutorial shows is what its reader gets."""

from __future__ import annotations

from tests.support.cli.tutorial import (
    PAGE,
    README,
    commands,
    files,
    is_about_the_process,
    replayed,
)


def test_the_tutorial_shows_what_its_commands_print() -> None:
    page = PAGE.read_text(encoding="utf-8")

    again, codes = replayed(page)

    assert again == page, "if it is meant: python -m tests.support.cli.tutorial"
    failing = [(command, code) for command, code in codes if code]
    assert failing == [
        ("datumctl-compute deploy -f broken.yaml", 3),
        ("datumctl-compute status nosuch -o json", 5),
    ]


def test_the_readme_shows_what_its_commands_print() -> None:
    page = README.read_text(encoding="utf-8")

    again, codes = replayed(page)

    assert again == page, "if it is meant: python -m tests.support.cli.tutorial"
    assert [code for _, code in codes] == [0, 0, 0]


def test_the_tutorial_starts_and_stops_what_it_uses() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [each for each in commands(page) if is_about_the_process(each)] == [
        "datumctl-compute local up --detach --runtime simulated",
        "datumctl-compute local down",
    ]
    assert list(files(page)) == ["broken.yaml"]
