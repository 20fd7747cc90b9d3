"""Finds uses of clocks, randomness, ids, environment variables, threads and executors.

The product gets all of these through ``datum_compute.env``: a simulation can only control
what passes through one door. This walks the syntax tree of a module and reports what
reaches past it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FORBIDDEN_MODULES = {
    "time": "clocks: use Environment.now(), or the event loop's time for durations",
    "random": "randomness: use Environment.random(stream)",
    "uuid": "fresh ids: use Environment.new_uid()",
    "secrets": "secrets: use Environment.new_token()",
    "threading": "threads: product code runs on one event loop",
    "_thread": "threads: product code runs on one event loop",
    "multiprocessing": "processes: product code runs on one event loop",
    "concurrent": "executors: product code runs on one event loop",
    "subprocess": "processes: only the modules of STARTS_PROCESSES start any",
}
"""Importing one of these is a violation in itself."""

FORBIDDEN_NAMES = {
    "datetime.datetime.now": "clocks: use Environment.now()",
    "datetime.datetime.utcnow": "clocks: use Environment.now()",
    "datetime.datetime.today": "clocks: use Environment.now()",
    "datetime.date.today": "clocks: use Environment.now()",
    "os.environ": "environment variables: use Environment.variable(name)",
    "os.environb": "environment variables: use Environment.variable(name)",
    "os.getenv": "environment variables: use Environment.variable(name)",
    "os.putenv": "environment variables: use Environment.variable(name)",
    "os.urandom": "randomness: use Environment.random(stream) or new_token()",
    "os.getrandom": "randomness: use Environment.random(stream) or new_token()",
    "os.times": "clocks: use Environment.now()",
    "asyncio.to_thread": "executors: product code runs on one event loop",
}

FORBIDDEN_METHODS = {
    "run_in_executor": "executors: product code runs on one event loop",
    "set_default_executor": "executors: product code runs on one event loop",
}

ALLOWED = frozenset({"env.py", "testing/environment.py", "testing/loop.py"})
"""The door itself, and the two modules that replace it and the loop in a simulation."""


STARTS_PROCESSES = frozenset(
    {
        "apiserver/worker/process.py",
        "assembly/local/process.py",
        "cli/targets/credential_helper.py",
        "client/auth/exec_credential.py",
        "providers/container/sockets.py",
    }
)
"""What starts other programs. Of these only the API server's worker computes for its process."""


@dataclass(frozen=True)
class Violation:
    path: str
    line: int
    used: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.used}: {self.reason}"


def violations_in(source: str, path: str) -> list[Violation]:
    tree = ast.parse(source, filename=path)
    aliases = _aliases(tree)
    found: list[Violation] = []
    for node in ast.walk(tree):
        found += [Violation(path, line, used, why) for line, used, why in _check(node, aliases)]
    return sorted(set(found), key=lambda v: (v.line, v.used))


def violations_below(package: Path) -> list[Violation]:
    found: list[Violation] = []
    for module in sorted(package.rglob("*.py")):
        path = module.relative_to(package).as_posix()
        if path not in ALLOWED:
            found += [
                each
                for each in violations_in(module.read_text(), path)
                if each.used != "subprocess" or path not in STARTS_PROCESSES
            ]
    return found


def _aliases(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for, wherever in the module it was imported."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                names[item.asname or item.name.split(".")[0]] = (
                    item.name if item.asname else item.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for item in node.names:
                names[item.asname or item.name] = f"{node.module}.{item.name}"
    return names


def _check(node: ast.AST, aliases: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    if isinstance(node, ast.Import):
        for item in node.names:
            yield from _module(node.lineno, item.name)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from _module(node.lineno, node.module)
        for item in node.names:
            yield from _name(node.lineno, f"{node.module}.{item.name}")
    elif isinstance(node, ast.Attribute):
        yield from _name(node.lineno, _dotted(node, aliases))
        if node.attr in FORBIDDEN_METHODS:
            yield node.lineno, node.attr, FORBIDDEN_METHODS[node.attr]


def _module(line: int, name: str) -> Iterator[tuple[int, str, str]]:
    root = name.split(".")[0]
    if root in FORBIDDEN_MODULES:
        yield line, name, FORBIDDEN_MODULES[root]


def _name(line: int, name: str) -> Iterator[tuple[int, str, str]]:
    if name in FORBIDDEN_NAMES:
        yield line, name, FORBIDDEN_NAMES[name]


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, aliases)}.{node.attr}"
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    return "?"
