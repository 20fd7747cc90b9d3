"""Finds test modules used as libraries, and packages of ``tests.support`` that import in a circle.

Helpers that several test modules need live in ``tests.support``; a suite imports nothing else of
the tests, so it can be moved, renamed and run alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SUPPORT = "tests.support"


def foreign_imports(root: Path) -> list[str]:
    """Imports of ``tests`` outside ``tests.support``, in any Python file below ``root``."""
    return [
        f"{path.relative_to(root)} imports {name}"
        for folder in ("tests", "src", "scripts", "bench", "examples")
        for path in sorted((root / folder).rglob("*.py"))
        for name in sorted(_imported(path))
        if not f"{name}.".startswith(f"{SUPPORT}.")
    ]


def support_circle(root: Path) -> list[str]:
    """The packages of a circle in ``tests.support``; empty if there is none."""
    support = root / "tests" / "support"
    graph: dict[str, set[str]] = {}
    for path in support.rglob("*.py"):
        package = path.relative_to(support).parts[0].removesuffix(".py")
        used = {name.split(".")[2] for name in _imported(path) if name.count(".") > 1}
        graph.setdefault(package, set()).update(used - {package})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _imported(path: Path) -> set[str]:
    return {
        name
        for name in _all_imported(ast.parse(path.read_text(), filename=str(path)))
        if name.split(".")[0] == "tests"
    }


def _all_imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{item.name}" for item in node.names)
