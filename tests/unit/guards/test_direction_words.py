"""Lesson 31: from a cell the hub is upstream, from a project it is not; the mixed words confused.

So: settings, conditions, metrics and messages use "federation". ``upstream`` is only in the keys of
two labels.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import datum_compute
from datum_compute.api.compute import v1alpha as compute
from datum_compute.assembly.manager import settings

SOURCE = Path(datum_compute.__file__).parent
CARRIED = ("controllers", "fleets", "assembly", "cli", "webhooks")
LITERAL = {compute.LABEL_UPSTREAM_CLUSTER_NAME, compute.LABEL_UPSTREAM_NAMESPACE}


def _texts(path: Path) -> list[str]:
    """String constants that are no docstrings: what users and other programs read."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def test_lesson_31_no_text_contains_upstream_or_downstream() -> None:
    found = [
        (path.relative_to(SOURCE), text)
        for part in CARRIED
        for path in sorted((SOURCE / part).rglob("*.py"))
        for text in _texts(path)
        if re.search("upstream|downstream", text, re.IGNORECASE) and text not in LITERAL
    ]

    assert found == []


def test_lesson_31_the_hub_is_reached_through_the_federation_settings() -> None:
    text = Path(settings.__file__).read_text()

    assert "--federation-kubeconfig" in text
    assert "--federation-context" in text
    assert not re.search("--[a-z-]*(upstream|downstream|karmada|hub)", text)
