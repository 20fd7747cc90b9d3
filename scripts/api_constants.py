"""The constants of the API and their meanings, read from the source.

A sentence below a constant is not there at run time; the syntax tree has it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from datum_compute import api
from datum_compute.api.compute.reasons import REASONS, Reason
from datum_compute.api.kinds import Kind

API = Path(api.__file__).parent


@dataclass(frozen=True, slots=True)
class Constant:
    """A text constant of a module, and its meaning; empty where none is written."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The meanings of an API package's conditions and reasons, by value."""

    conditions: dict[str, str]
    reasons: dict[str, str]
    records: dict[str, Reason]
    """What compute knows further of its reasons; empty for other packages."""


def constants(module: Path) -> Iterator[Constant]:
    """The text constants of a module, in order."""
    body = ast.parse(module.read_text(encoding="utf-8")).body
    for statement, following in pairwise([*body, ast.Pass()]):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as value)):
                yield Constant(name, value, _sentence(following))


def constants_of(package: str) -> list[Constant]:
    """Those of all modules of a package of the API, module by module."""
    return [each for module in sorted((API / package).rglob("*.py")) for each in constants(module)]


def package_of(view: type) -> str:
    """The package of the API a type is from, or the module, for one that belongs to none."""
    return view.__module__.removeprefix(f"{api.__name__}.").partition(".")[0]


def vocabulary_of(kind: Kind) -> Vocabulary:
    """The words of the package a kind is from."""
    return _words(package_of(kind.view))


@cache
def _words(package: str) -> Vocabulary:
    found = constants_of(package)
    records = REASONS if package == "compute" else {}
    return Vocabulary(
        {each.value: each.meaning for each in found if each.name.startswith("CONDITION_")},
        {each.value: each.meaning for each in found if each.name.startswith("REASON_")}
        | {each.name: each.meaning for each in records.values()},
        records,
    )


def _sentence(statement: ast.stmt) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return " ".join(text.split())
    return ""
