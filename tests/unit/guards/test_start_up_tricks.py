"""Start-up tricks stay in ``cli/quick``, and argparse is used through its public names."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import datum_compute
from tests.support.paths import ROOT

PACKAGE = Path(datum_compute.__file__).parent
FENCE = PACKAGE / "cli" / "quick"
STAND_INS = frozenset({"TYPE_CHECKING", "Protocol", "NamedTuple", "Any"})
CALLS = frozenset({("gc", "set_threshold"), ("gc", "disable"), ("gc", "freeze"), ("os", "_exit")})
"""Servers may use these; in the CLI they only serve a quick start."""

PRIVATE = frozenset(
    name
    for kind in (argparse.ArgumentParser, argparse.HelpFormatter, argparse.Action)
    for name in [*dir(kind), *vars(argparse.ArgumentParser())]
    if name.startswith("_") and not name.startswith("__")
)


def private_members(source: str) -> Iterator[str]:
    """Uses of argparse's private names, in a module that imports argparse or our parser."""
    tree = ast.parse(source)
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if "argparse" not in names and "datum_compute.cli.arguments" not in modules:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in PRIVATE or (owner == "argparse" and node.attr.startswith("_")):
                yield f"{node.lineno}: {node.attr}"
        elif isinstance(node, ast.FunctionDef) and node.name in PRIVATE:
            yield f"{node.lineno}: {node.name}"


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


def test_argparse_is_used_through_its_public_names() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{use}"
        for folder in (PACKAGE, ROOT / "scripts", ROOT / "tests" / "unit" / "cli")
        for path in sorted(folder.rglob("*.py"))
        for use in private_members(path.read_text())
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import argparse\nargparse._ = str\n",
        "import argparse\nisinstance(action, argparse._SubParsersAction)\n",
        "import argparse\nparser._actions\n",
        "import argparse\nclass F(argparse.HelpFormatter):\n    def _split_lines(self): ...\n",
        "from datum_compute.cli.arguments import Parser\nparser._option_string_actions\n",
    ],
)
def test_each_private_name_of_argparse_is_found(source: str) -> None:
    assert list(private_members(source))
