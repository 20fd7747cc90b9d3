"""Every error of the command line is in the transcript, where people read it."""

from __future__ import annotations

import re

import pytest

from datum_compute.cli.errors import Exit
from tests.support.cli.error_screens import FILE, written
from tests.support.cli.error_sites import sites


def entries() -> dict[str, str]:
    """The ledger by the place that made the error."""
    parts = re.split(r"^(\S.*)\n", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_transcript_covers_exactly_the_places_that_raise_an_error() -> None:
    assert sorted(entries()) == sorted(sites().values())


def test_every_error_has_a_message_and_a_documented_exit_code() -> None:
    for site, entry in entries().items():
        found = re.search(r"\[exit (\d+), \w+\]\n  (Error: \S|[A-Z])", entry)
        assert found, (site, entry)
        assert int(found[1]) in {each.value for each in Exit} - {0}, site
        assert "Traceback" not in entry, site
        assert not re.search(r"\b[a-z]+s\.(compute\.datumapis|\w+\.miloapis)\.com", entry), site


@pytest.mark.long
def test_every_error_in_the_transcript_is_current() -> None:
    agreed = FILE.read_text(encoding="utf-8")

    assert written().text() == agreed, "if it is meant: python -m tests.support.cli.error_screens"
