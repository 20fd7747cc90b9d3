"""No error of the command line that nobody has seen."""

from __future__ import annotations

import re

import pytest

from datum_compute.cli.errors import Exit
from tests.golden.cli_errors import FILE, written
from tests.golden.error_sites import sites


def entries() -> dict[str, str]:
    """The ledger by the place that made the error."""
    parts = re.split(r"^(\S.*)\n", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_place_that_makes_an_error_is_in_the_ledger_and_nothing_else() -> None:
    assert sorted(entries()) == sorted(sites().values())


def test_every_error_has_words_and_an_exit_code_of_ours() -> None:
    for site, entry in entries().items():
        found = re.search(r"\[exit (\d+), \w+\]\n  (Error: \S|[A-Z])", entry)
        assert found, (site, entry)
        assert int(found[1]) in {each.value for each in Exit} - {0}, site
        assert "Traceback" not in entry, site
        assert not re.search(r"\b[a-z]+s\.(compute\.datumapis|\w+\.miloapis)\.com", entry), site


@pytest.mark.long
def test_every_error_in_the_ledger_is_what_its_command_really_shows() -> None:
    agreed = FILE.read_text(encoding="utf-8")

    assert written().text() == agreed, "if it is meant: python -m tests.golden.cli_errors"
