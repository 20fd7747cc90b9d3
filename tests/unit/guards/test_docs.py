"""Docs lead somewhere: every link points at a file, and every page is linked from one."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.paths import ROOT

LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")]
    return sorted(found + list(ROOT.glob("examples/**/*.md")))


def targets(page: Path) -> list[Path]:
    return [(page.parent / target).resolve() for target in LINK.findall(page.read_text())]


def test_every_link_points_at_something() -> None:
    dead = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages()
        for target in targets(page)
        if not target.exists()
    ]

    assert not dead


def test_every_page_is_linked_from_another() -> None:
    linked = {target for page in pages() for target in targets(page)}

    lost = [
        str(page.relative_to(ROOT))
        for page in pages()
        if page not in linked and page.name not in ("README.md", "index.md")
    ]
    assert not lost


def test_the_files_on_a_workloads_path_exist() -> None:
    text = (ROOT / "docs/develop/architecture.md").read_text()
    hops = re.findall(r"^\| \d+ \|[^|]*\| `([^`]+)` \|", text, re.M)

    assert len(hops) > 15
    assert not [hop for hop in hops if not (ROOT / "src/datum_compute" / hop).is_file()]


def test_every_test_suite_is_on_the_architecture_page() -> None:
    text = (ROOT / "docs/develop/architecture.md").read_text()
    named = set(re.findall(r"^\| `tests/(\w+)/` \|", text, re.M))

    suites = {
        path.parent.relative_to(ROOT / "tests").parts[0]
        for path in (ROOT / "tests").rglob("*/*.py")
    }
    assert named == suites - {"__pycache__"}
