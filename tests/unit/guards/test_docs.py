"""Links, anchors, files, targets and commands on every page exist, and every page is linked from
another. Every guard finds what is planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.guards.pages import (
    dead_links,
    links,
    missing_files,
    missing_targets,
    wrong_commands,
)
from tests.support.paths import ROOT

PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md", "examples/**/*.md", "samples/*.md")
    for path in ROOT.glob(pattern)
)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_everything_that_a_page_mentions_exists(page: Path) -> None:
    text = page.read_text()

    assert dead_links(page) == []
    assert missing_files(ROOT, text) == []
    assert missing_targets(ROOT, text) == []
    assert wrong_commands(text) == []


def test_a_planted_link_or_anchor_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`: c\n[1](#a-b-c) [2](page.md#a-b-c) [3](#a) [4](page.md#b) [5](no.md)")

    assert dead_links(page) == ["page.md: page.md#a", "page.md: page.md#b", "page.md: no.md#"]


def test_a_planted_mention_is_found() -> None:
    text = "`cli/main.py` `cli/no.py` `api/{meta,no}.py` `make test` `make no` `deploy/<no>.md`"
    block = "```sh\n.venv/bin/python -m tests.support.no\n$ kubectl apply -f samples/no.yaml\n```\n"

    assert missing_files(ROOT, text) == ["cli/no.py", "api/{meta,no}.py", "deploy/<no>.md"]
    assert missing_files(ROOT, block) == ["samples/no.yaml"]
    assert missing_targets(ROOT, f"{text}\n{block}") == ["make no", "tests.support.no"]


@pytest.mark.parametrize("line", ["no", "scale web --no 1", "local no", "status web --min 1"])
def test_a_planted_command_is_found(line: str) -> None:
    good = "`datumctl-compute scale web --min 2` `datumctl-compute COMMAND --help`"

    assert wrong_commands(good) == []
    assert len(wrong_commands(f"{good}\n```\n$ datumctl-compute {line}\n```\n")) == 1


def test_every_page_is_linked_from_another() -> None:
    linked = {target for page in PAGES for target, _ in links(page) if target != page}

    lost = [
        name(page)
        for page in PAGES
        if page not in linked and page.name not in ("README.md", "index.md")
    ]
    assert lost == []
