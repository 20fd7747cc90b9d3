"""Lesson 32: there were five copies of the encoding of names, and rules of the domain in ``main``.

So: each has one tested module.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import datum_compute
from datum_compute.api.compute import names

SOURCE = Path(datum_compute.__file__).parent
NAMES = SOURCE / "api" / "compute" / "names.py"

SHAPES = {
    "cluster": r"""["']cluster-["'{]""",
    "slashes": r"""replace\(["']/["'], ["']_["']\)""",
    "namespace": r"""["']ns-["'{]""",
    "claim": r"""["']instance-["'{]""",
    "policy": r"""["']city-["'{]""",
    "binding": r"""-net-\{""",
}
"""How each name looks where it is made; each is made in one place."""


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_lesson_32_each_name_is_built_in_one_module(shape: str) -> None:
    made = [path for path in SOURCE.rglob("*.py") if re.search(SHAPES[shape], path.read_text())]

    assert made == [NAMES]


@pytest.mark.parametrize("project", ["demo", "acme/demo", "planet/acme/demo"])
def test_lesson_32_decoding_reverses_the_encoding(project: str) -> None:
    assert names.decode_project(names.encode_cluster(project)) == project.rpartition("/")[2]


def test_lesson_32_main_contains_no_decisions() -> None:
    """It imports configuration and machinery of the layers below, not rules."""
    for path in (SOURCE / "assembly" / "manager" / "main.py", SOURCE / "cli" / "__main__.py"):
        modules = {
            node.module or ""
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
        }
        assert not [name for name in modules if ".decisions" in name or ".controllers" in name]
