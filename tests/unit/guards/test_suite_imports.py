"""Tests import only ``tests.support``, and its packages have no import cycle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.guards.imports import foreign_imports, support_circle
from tests.support.paths import ROOT


def test_only_support_is_imported() -> None:
    assert foreign_imports(ROOT) == []


def test_support_packages_have_no_import_cycle() -> None:
    assert support_circle(ROOT) == []


@pytest.mark.parametrize(
    ("path", "statement", "found"),
    [
        ("tests/cli/test_a.py", "from tests.cli.test_b import given", "tests.cli.test_b.given"),
        ("tests/cli/test_a.py", "from tests.unit import test_b as b", "tests.unit.test_b"),
        ("tests/support/a.py", "import tests.federation.test_b", "tests.federation.test_b"),
        ("src/datum_compute/a.py", "from tests import cli", "tests.cli"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, path: str, statement: str, found: str) -> None:
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(f"from tests.support.paths import ROOT\n{statement}\n")

    assert foreign_imports(tmp_path) == [f"{path} imports {found}"]


def test_a_planted_import_cycle_is_found(tmp_path: Path) -> None:
    for package, other in (("cli", "client"), ("client", "cli")):
        planted = tmp_path / "tests" / "support" / package / "planted.py"
        planted.parent.mkdir(parents=True)
        planted.write_text(f"from tests.support.{other} import planted\n")

    assert set(support_circle(tmp_path)) == {"cli", "client"}
