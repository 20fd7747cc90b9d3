"""Finds names that a reader of the field would not guess: retired words, gerunds as modules,
one class name for two things, references to names that do not exist, crowded folders."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

RETIRED = frozenset(
    [
        "deed",
        "desk",
        "echoes",
        "everybody",
        "farewell",
        "farewells",
        "hearsay",
        "mould",
        "nobody",
        "onlooker",
        "outlook",
        "patience",
        "scribe",
        "somebody",
        "standing",
        "surroundings",
        "teller",
        "tenant",
        "tenants",
        "told",
        "weather",
        "whither",
        "whoever",
        "wish",
        "wishes",
        "witness",
    ]
)
"""Words that no identifier contains; wire names are strings, and not concerned."""

NOUNS = frozenset(
    [
        "logging",
        "mapping",
        "networking",
        "pending",
        "printing",
        "pruning",
        "routing",
        "scheduling",
        "string",
        "testing",
    ]
)
"""Words in ``-ing`` that are nouns of the field, and may name a module."""

CROWDED = 15
"""The most modules that a folder may have, apart from its ``__init__``."""

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_REFERENCE = re.compile(r":(?:mod|class|func|meth|data|attr|exc):`([^`]+)`")


def words_of(identifier: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(identifier)]


def modules_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def retired_identifiers(root: Path) -> list[str]:
    """``path: identifier`` for each definition with a retired word."""
    return [
        f"{path.relative_to(root)}: {identifier}"
        for path in modules_below(root)
        for identifier in sorted({path.stem, *_defined(ast.parse(path.read_text()))})
        if RETIRED.intersection(words_of(identifier))
    ]


def gerund_modules(root: Path) -> list[str]:
    """Modules and packages whose name ends in a verb's ``-ing``."""
    names = {path.relative_to(root).with_suffix("") for path in modules_below(root)}
    names |= {parent for name in names for parent in name.parents if parent.name}
    found = (name for name in sorted(names) if words_of(name.name))
    return [
        str(name)
        for name in found
        if (last := words_of(name.name)[-1]).endswith("ing") and last not in NOUNS
    ]


def classes_with_two_homes(package: Path) -> dict[str, list[str]]:
    """Public classes of one name -> the modules that define it, if there are several."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in modules_below(package):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(package)))
    return {name: paths for name, paths in homes.items() if len(paths) > 1}


def dead_references(package: Path) -> list[str]:
    """``:class:`` and the like in docstrings, whose target is not in the package. A target
    outside it (``msgspec``) is not followed."""
    defined = _all_names(package)
    return [
        f"{path.relative_to(package)}: {target}"
        for path in modules_below(package)
        for target in _REFERENCE.findall(path.read_text())
        if not _exists(target, path, package, defined)
    ]


def crowded_folders(root: Path) -> dict[str, int]:
    counts: defaultdict[str, int] = defaultdict(int)
    for path in modules_below(root):
        if path.name != "__init__.py":
            counts[str(path.parent.relative_to(root))] += 1
    return {folder: count for folder, count in sorted(counts.items()) if count > CROWDED}


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.alias(name=name, asname=None):
                yield name
            case ast.alias(asname=str(name)):
                yield name


def _all_names(package: Path) -> dict[str, set[str]]:
    """Every dotted module of the package, relative to it -> names defined anywhere in it."""
    return {
        _dotted(path, package): {*_defined(ast.parse(path.read_text())), *dir(builtins)}
        for path in modules_below(package)
    }


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _exists(target: str, path: Path, package: Path, defined: dict[str, set[str]]) -> bool:
    target = re.sub(r".*<([^>]+)>$", r"\1", target).lstrip("~").removesuffix("()")
    here = _dotted(path, package)
    inside = f"{package.name}."
    if target.startswith(inside):
        return _resolves(target.removeprefix(inside), defined)
    if target.startswith("."):
        up = len(target) - len(target.lstrip("."))
        parts = here.split(".") if path.name == "__init__.py" else here.split(".")[:-1]
        base = parts[: len(parts) - up + 1]
        return _resolves(".".join([*base, target.lstrip(".")]), defined)
    first = target.split(".")[0]
    if first != target and first.islower():
        return True  # of another library
    return target in defined[here] if first == target else _is_member(target, defined)


def _is_member(target: str, defined: dict[str, set[str]]) -> bool:
    return any(names.issuperset(target.split(".")) for names in defined.values())


def _resolves(target: str, defined: dict[str, set[str]]) -> bool:
    if target in defined:
        return True
    parts = target.split(".")
    for cut in range(len(parts) - 1, -1, -1):
        module = ".".join(parts[:cut])
        if module in defined:
            return all(part in defined[module] for part in parts[cut:])
    return False
