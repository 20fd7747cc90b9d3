"""Tests in a real browser; they say what is missing and install nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser.platform import BrowserPlatform
from tests.support.browser.webdriver import Browser, chromium, missing_programs
from tests.support.paths import ROOT

SHOTS = ROOT / "build" / "screenshots"


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    missing = missing_programs()
    if missing:
        pytest.fail(
            f"missing: {' and '.join(missing)}; on Debian: apt-get install chromium chromium-driver"
        )


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserPlatform]:
    found = BrowserPlatform(tmp_path_factory.mktemp("console"))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def browser(window: Browser) -> Iterator[Browser]:
    """The window as it was at first; a test leaves no complaint of the browser behind."""
    window.open("about:blank")
    window.resize(1280, 900)
    window.prefer("light")
    window.complaints()
    yield window
    assert window.complaints() == []


@pytest.fixture(scope="session")
def shots() -> Path:
    """Where screenshots are kept, for people to look at."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    return SHOTS
