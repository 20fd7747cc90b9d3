"""What an installation has: declared dependencies, and every module of the product."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

from tests.support.paths import ROOT


def imported_packages() -> set[str]:
    found: set[str] = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"datum_compute"}


def test_dependencies_are_what_the_product_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=~!]", each)[0].lower() for each in project["dependencies"]}
    distributions = packages_distributions()

    imported = {distributions[package][0].lower() for package in imported_packages()}

    assert {name.replace("_", "-") for name in imported} == declared


def test_no_file_of_the_product_is_ignored() -> None:
    """The build backend leaves out what `.gitignore` names, also where git tracks it."""
    files = [str(file.relative_to(ROOT)) for file in (ROOT / "src").rglob("*.*")]
    shipped = [file for file in files if "__pycache__" not in file]
    command = ["git", "check-ignore", "--no-index", "--stdin"]

    done = subprocess.run(
        command, cwd=ROOT, input="\n".join(shipped), capture_output=True, text=True, check=False
    )

    assert len(shipped) > 600
    assert (done.stdout, done.stderr) == ("", "")
