"""Names stay those of the field, and each has one home. Every guard finds what is planted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import datum_compute
from tests.support.guards.names import (
    CROWDED,
    classes_with_two_homes,
    crowded_folders,
    dead_references,
    gerund_modules,
    retired_identifiers,
)
from tests.support.paths import ROOT

PACKAGE = Path(datum_compute.__file__).parent
FOLDERS = ("src", "tests", "bench", "scripts")
TWO_HOMES = {"Cluster": ["api/karmada/clusters.py", "runtime/cluster.py"]}
"""The exceptions that CONTRIBUTING.md names."""


def plant(root: Path, **modules: str) -> None:
    """Modules by name, with ``__`` for a slash."""
    for name, source in modules.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_identifier_contains_a_retired_word(folder: str) -> None:
    assert retired_identifiers(ROOT / folder) == []


@pytest.mark.parametrize(
    "source",
    [
        "class Mould: ...",
        "class TenantFleet: ...",
        "def was_told(): ...",
        "async def _is_hearsay(): ...",
        "def f(wish): ...",
        "_echoes = 1",
        "def f(self):\n    self._desk = 1",
        "import json as witness",
    ],
)
def test_a_planted_identifier_is_found(tmp_path: Path, source: str) -> None:
    plant(tmp_path, planted=source)

    assert len(retired_identifiers(tmp_path)) == 1


def test_a_planted_module_of_a_retired_name_is_found(tmp_path: Path) -> None:
    plant(tmp_path, farewells="", retold="retold = 'told'")

    assert retired_identifiers(tmp_path) == ["farewells.py: farewells"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_module_is_named_by_a_gerund(folder: str) -> None:
    assert gerund_modules(ROOT / folder) == []


def test_a_planted_gerund_is_found(tmp_path: Path) -> None:
    plant(tmp_path, looking="", rolling__printing="")

    assert gerund_modules(tmp_path) == ["looking", "rolling"]


def test_a_class_name_has_one_home_or_is_a_documented_exception() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()

    assert classes_with_two_homes(PACKAGE) == TWO_HOMES
    assert all(f"`{home}`" in page for homes in TWO_HOMES.values() for home in homes)


def test_a_planted_class_with_two_homes_is_found(tmp_path: Path) -> None:
    plant(tmp_path, one="class A: ...\nclass _B: ...", other="class A: ...\nclass _B: ...")

    assert classes_with_two_homes(tmp_path) == {"A": ["one.py", "other.py"]}


def test_every_reference_in_a_docstring_exists() -> None:
    assert dead_references(PACKAGE) == []


@pytest.mark.parametrize(
    "target",
    [":mod:`.gone`", ":class:`Gone`", ":mod:`x <pkg.gone>`", ":func:`.one.gone`", ":meth:`A.gone`"],
)
def test_a_planted_dead_reference_is_found(tmp_path: Path, target: str) -> None:
    package = tmp_path / "pkg"
    plant(
        package, one=f'"""{target} :mod:`.other` :meth:`A.run`"""\nclass A:\n  def run(self): ...'
    )
    plant(package, other='""":func:`~pkg.other.f` :class:`.one.A`"""\ndef f(): ...')

    assert len(dead_references(package)) == 1


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_no_folder_is_crowded(folder: str) -> None:
    assert crowded_folders(ROOT / folder) == {}


def test_a_planted_crowded_folder_is_found(tmp_path: Path) -> None:
    plant(tmp_path, **{f"pkg__m{number}": "" for number in range(CROWDED)}, pkg____init__="")
    assert crowded_folders(tmp_path) == {}

    plant(tmp_path, pkg__one_more="")
    assert crowded_folders(tmp_path) == {"pkg": CROWDED + 1}


def test_every_test_folder_is_on_the_architecture_page() -> None:
    page = (ROOT / "docs/develop/architecture.md").read_text()

    named = set(re.findall(r"^\| `tests/(\w+)/`", page, re.M))
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in ROOT.glob("tests/*/**/*.py")}
    assert named == folders
