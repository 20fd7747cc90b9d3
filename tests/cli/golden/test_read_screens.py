"""Every screen is as it was last read by a person."""

from __future__ import annotations

import re
from typing import Any

import pytest

from datum_compute.api.compute.reasons import REASONS
from tests.support.cli.read_screens import FILES, SCENES
from tests.support.gitops_tools import disagreement


@pytest.mark.parametrize("name", sorted(SCENES))
def test_read_screens_match_the_golden_files(name: str) -> None:
    """And GitOps tools agree with what is said of the Workloads in them."""
    agreed = (FILES / f"{name}.txt").read_text(encoding="utf-8")
    seen: list[dict[str, Any]] = []

    assert SCENES[name].transcript(seen) == agreed, (
        "if it is meant: python -m tests.support.cli.read_screens"
    )
    assert [text for each in seen if (text := disagreement(each))] == []


def test_every_golden_file_belongs_to_a_scene() -> None:
    assert {file.stem for file in FILES.glob("*.txt")} == set(SCENES)


@pytest.mark.parametrize("name", sorted(SCENES))
def test_no_screen_shows_escape_codes_stack_traces_or_api_groups(name: str) -> None:
    """Nor does a line end in spaces."""
    text = (FILES / f"{name}.txt").read_text(encoding="utf-8")

    assert "\x1b" not in text
    assert "Traceback" not in text
    assert "miloapis.com" not in text
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_every_reason_on_a_screen_is_explained() -> None:
    """The reasons that controllers wrote in the scenes, in every format that names them."""
    text = "".join(file.read_text(encoding="utf-8") for file in FILES.glob("*.txt"))

    found = set(re.findall(r'"?reason"?: "?(?!null\b)(\w+)"?,?$', text, re.MULTILINE))

    assert len(found) > 8
    assert found - set(REASONS) == set()
