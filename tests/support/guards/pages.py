"""Finds what pages mention that does not exist: link targets, anchors, files, make targets,
modules, and command lines of the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from datum_compute.cli.arguments import insert_default_action, move_leading_flags
from datum_compute.cli.errors import PROGRAM, CommandError
from datum_compute.cli.main import COMMANDS, build_parser

SOURCE = "src/datum_compute"
ROOTS = ("src", "docs", "tests", "deploy", "samples", "examples", "scripts", "bench", ".github")
"""Folders of the repository; a path that starts with one of them, or with a package, is ours."""

_LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)")
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(?:/[\w.*{},<>-]+)+/?")
_BRACES = re.compile(r"\{([^}]*)\}")


def links(page: Path) -> list[tuple[Path, str]]:
    """The target and anchor of each relative link; the page itself where only an anchor stands."""
    found = _LINK.findall(page.read_text())
    return [((page.parent / target).resolve() if target else page, to) for target, to in found]


def dead_links(page: Path) -> list[str]:
    return [
        f"{page.name}: {target.name}#{anchor}"
        for target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target.read_text()))
    ]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub derives them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def missing_files(root: Path, text: str) -> list[str]:
    """Paths of the repository, or below its package, that lead to no file."""
    packages = [path.name for path in (root / SOURCE).iterdir() if path.is_dir()]
    inline = [code for code in _inline(text) if _PATH.fullmatch(code)]
    typed = [word for line in _typed(text) for word in line.split() if _PATH.fullmatch(word)]
    named = [path for path in inline if path.split("/")[0] in (*ROOTS, *packages)]
    named += [path for path in typed if path.split("/")[0] in ROOTS]
    return [path for path in named if not all(_exists(root, each) for each in _spelled(path))]


def _spelled(path: str) -> list[str]:
    """Each path that braces stand for, with ``*`` for what varies."""
    braces = _BRACES.search(path)
    if braces is None:
        return [re.sub(r"<[^>]*>", "*", path).rstrip("/")]
    return [
        each
        for choice in braces[1].split(",")
        for each in _spelled(path.replace(braces[0], choice, 1))
    ]


def _exists(root: Path, path: str) -> bool:
    return any(any(base.glob(path)) for base in (root, root / SOURCE))


def missing_targets(root: Path, text: str) -> list[str]:
    """Make targets and modules to run that do not exist."""
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M))
    code = "\n".join([*_inline(text), *_typed(text)])
    named = re.findall(r"^make ([a-z-]+)", code, re.M)
    modules = re.findall(rf"python3? -m ((?:{'|'.join(ROOTS)})[\w.]*)", code)
    return [
        *(f"make {name}" for name in named if name not in targets),
        *(name for name in modules if not any(root.glob(f"{name.replace('.', '/')}*"))),
    ]


def wrong_commands(text: str) -> list[str]:
    """Command lines of the program that it does not accept."""
    wrong = []
    for line in [*_inline(text), *_typed(text)]:
        if not line.startswith(f"{PROGRAM} ") or "[flags]" in line:
            continue
        typed = re.split(r" (?:>|&&|\||#)", line.removeprefix(PROGRAM))[0]
        words = move_leading_flags(shlex.split(typed))
        if words[0].isupper():  # a placeholder
            continue
        try:
            command = words[0] if words[0] in COMMANDS else None
            build_parser(command).parse_args(insert_default_action(words, command))
        except CommandError as error:
            wrong.append(f"{line}: {error}")
    return wrong


def _inline(text: str) -> Iterator[str]:
    yield from _CODE.findall(_FENCE.sub("", text))


def _typed(text: str) -> Iterator[str]:
    for block in _FENCE.findall(text):
        yield from (line.removeprefix("$ ").strip() for line in block.splitlines()[1:-1])
