"""Tricks that make short commands start quickly are found outside ``cli/quick``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import datum_compute

PACKAGE = Path(datum_compute.__file__).parent
FENCE = PACKAGE / "cli" / "quick"
STAND_INS = frozenset({"TYPE_CHECKING", "Protocol", "NamedTuple", "Any"})
CALLS = frozenset({("gc", "set_threshold"), ("gc", "disable"), ("gc", "freeze"), ("os", "_exit")})
"""Servers may use these; in the CLI they only serve a quick start."""


def tricks(source: str, *, in_cli: bool) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id in STAND_INS:
                    yield f"{node.lineno}: {target.id} is replaced"
        elif in_cli and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = (node.value.id, node.attr)
            if name in CALLS:
                yield f"{node.lineno}: {'.'.join(name)}"


def test_start_up_tricks_stay_in_cli_quick() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{trick}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if FENCE not in path.parents
        for trick in tricks(path.read_text(), in_cli=path.is_relative_to(PACKAGE / "cli"))
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "TYPE_CHECKING = False\n",
        "if True:\n    pass\nelse:\n    Protocol = object\n",
        "import gc\ngc.set_threshold(1)\n",
        "def leave():\n    import os\n    os._exit(0)\n",
    ],
)
def test_each_trick_is_found(source: str) -> None:
    assert list(tricks(source, in_cli=True))
