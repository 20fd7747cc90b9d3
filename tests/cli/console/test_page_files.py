"""The files of the page: small, unchanged where they are of others, and without inline code."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import datum_compute.cli.console

PAGE = Path(datum_compute.cli.console.__file__).parent / "page"
OURS = sorted(each for each in PAGE.iterdir() if each.is_file())

VENDORED = {
    # npm: preact 11.2.0, dist/preact.mjs and LICENSE
    "preact.js": "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
    "LICENSE-preact": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    # npm: htm 3.1.1, dist/htm.mjs and LICENSE
    "htm.js": "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4",
    "LICENSE-htm": "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f",
}


def test_files_of_others_are_as_they_were_published() -> None:
    found = {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in (PAGE / "vendor").iterdir()
    }

    assert found == VENDORED


def test_the_page_is_small() -> None:
    size = sum(each.stat().st_size for each in PAGE.rglob("*") if each.is_file())

    assert size < 150_000


def test_the_page_has_no_inline_code() -> None:
    """The policy forbids it, so it would not run."""
    page = (PAGE / "index.html").read_text()

    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=|\bstyle=", page) == []


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.name)
def test_no_script_makes_html_of_text(file: Path) -> None:
    text = file.read_text()

    for risky in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert risky not in text
    assert "http://" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "https://" not in text
    assert "localStorage" not in text


def test_no_text_of_the_page_is_smaller_than_13_pixels() -> None:
    sizes = re.findall(r"font(?:-size)?:[^;}]*?(\d+)px", (PAGE / "app.css").read_text())

    assert sizes
    assert min(map(int, sizes)) >= 13


THEMES = re.findall(r"\{([^{}]*--page:[^{}]*)\}", (PAGE / "app.css").read_text())
TEXTS = ("text", "quiet", "good", "busy", "bad", "off", "link")
GROUNDS = ("page", "panel", "shade")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ground", GROUNDS)
def test_every_text_can_be_read_on_every_ground(theme: str, text: str, ground: str) -> None:
    """WCAG AA: a contrast of 4.5."""
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", theme))
    light, dark = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)

    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_both_ways_to_the_dark_theme_have_the_same_colours() -> None:
    """By the preference of the system, and by the button."""
    light, preferred, chosen = ([*re.findall(r"--\w+: #\w+", each)] for each in THEMES)

    assert preferred == chosen
    assert preferred != light
