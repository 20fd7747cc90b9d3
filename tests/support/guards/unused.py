"""Finds names of the product that only tests use.

By name alone, as vulture does: a definition counts as used if any other place in the product,
the scripts, the benchmarks or the examples has an identifier or a string of that name.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

USERS = ("src", "scripts", "bench", "examples")


def unused_names(root: Path, package: Path) -> list[str]:
    """``path: name`` of functions, methods, classes and constants of the package."""
    trees = {
        path: ast.parse(path.read_text())
        for folder in USERS
        for path in sorted((root / folder).rglob("*.py"))
    }
    used: Counter[str] = Counter()
    for tree in trees.values():
        used.update(_used(tree))
    return [
        f"{path.relative_to(package)}: {name}"
        for path, tree in trees.items()
        if path.is_relative_to(package)
        for name in _defined(tree)
        if not used[name] and not (name.startswith("__") and name.endswith("__"))
    ]


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield inner.name


def _used(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                yield name
            case ast.Attribute(attr=name):
                yield name
            case ast.alias(name=name):
                yield name.rpartition(".")[2]
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield text
            case ast.keyword(arg=str(name)):
                yield name
