"""The tutorial with containers, typed again on a real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.container_tutorial import (
    PAGE,
    base_image,
    replayed,
    typed_commands,
)

pytestmark = pytest.mark.containers


def test_every_command_of_the_tutorial_shows_what_the_page_shows(
    engine: str, tmp_path: Path
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    with base_image(engine):
        now, codes = replayed(page, tmp_path, engine)
    assert codes == [0] * len(codes)
    for written, shown in zip(typed_commands(page), typed_commands(now), strict=True):
        if written.is_compared:
            assert shown.lines == written.lines, written.command
