"""Every text the command line can print, collected from its source for reading in one go.

A text is a string literal with several words, a column's title, or any literal that is passed
to a function that prints. Docstrings, shell scripts and Markdown (fields for the reference) are
left out. In an f-string, braces hold the name of the value.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import datum_compute.cli

SOURCES = Path(datum_compute.cli.__file__).parent
GOLDEN = Path(__file__).parents[2] / "cli" / "golden" / "texts.txt"

_SEVERAL_WORDS = re.compile(r"[^\W\d_]\S* +\S|\S +[^\W\d_]")
_TITLE = re.compile(r"[A-Z][A-Z -]+")
_TITLES = ("HEADER", "COLUMNS", "WIDE")
_PRINTING = ("say", "print", "CommandError", "usage", "ReasonText", "InstanceState", "Link")
_VALUE = re.compile(r"{[^}]*}")


def texts() -> str:
    parts = []
    for path in sorted(SOURCES.rglob("*.py")):
        found = list(dict.fromkeys(_texts_of(ast.parse(path.read_text(encoding="utf-8")))))
        if found:
            module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
            parts.append("\n".join([module, *(f"  {_one_line(text)}" for text in found)]))
    return "\n\n".join(parts) + "\n"


def _texts_of(tree: ast.Module) -> Iterator[str]:
    for node in _walk(tree):
        text = _text(node)
        if _is_prose(text):
            yield text
        elif isinstance(node, ast.Call) and _name(node.func) in _PRINTING:
            yield from (each for each in map(_text, node.args) if each.strip(" .\n").isalpha())
        elif isinstance(node, ast.Assign) and any(_name(each) in _TITLES for each in node.targets):
            titles = [_text(each) for each in ast.walk(node.value)]
            yield " | ".join(title for title in titles if title and _TITLE.fullmatch(title))


def _is_prose(text: str) -> bool:
    words = _VALUE.sub("", text)
    if "`" in text or text.count("\n") > 4:
        return False
    return bool(re.search(r"[^\W\d_]{2}", words) and _SEVERAL_WORDS.search(text))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """In the order of the source, without docstrings and the parts of f-strings."""
    yield node
    if isinstance(node, ast.JoinedStr):
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from _walk(part.value)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.expr) and _is_annotation(node, child):
            continue
        yield from _walk(child)


def _is_annotation(parent: ast.AST, child: ast.expr) -> bool:
    return child in (getattr(parent, "annotation", None), getattr(parent, "returns", None))


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else f"{{{_placeholder(part)}}}"
        for part in node.values
    )


def _placeholder(part: ast.expr) -> str:
    """The outermost name of the value, without how it is computed."""
    names = [_name(each) for each in ast.walk(part) if _name(each)]
    return names[0] if names else "…"


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", "") or getattr(node, "id", ""))


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n")


if __name__ == "__main__":
    GOLDEN.write_text(texts(), encoding="utf-8")
    print(f"wrote {GOLDEN.name}", file=sys.stderr)
