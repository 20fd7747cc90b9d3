"""Where the time of a run goes: own time by module, then by function."""

from __future__ import annotations

import cProfile
import pstats
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import PurePath

FUNCTIONS = 30
MODULES = 20

FunctionKey = tuple[str, int, str]
"""File, line and name, as pstats keeps them."""


def profile(run: Callable[[Callable[[], object], Callable[[], object]], object]) -> str:
    """Run with the profiler's two switches, and print what cost most between them."""
    profiler = cProfile.Profile()
    run(profiler.enable, profiler.disable)
    own: dict[FunctionKey, float] = {}
    calls: dict[FunctionKey, int] = {}
    entries = pstats.Stats(profiler).stats  # type: ignore[attr-defined]  # not in its stub
    for key, (_, count, seconds, _, _) in entries.items():
        own[key], calls[key] = seconds, count
    return "\n".join([_modules_table(own), "", _functions_table(own, calls)])


def group_by_module(own: Mapping[FunctionKey, float]) -> Counter[str]:
    """Own seconds by module."""
    grouped: Counter[str] = Counter()
    for key, seconds in own.items():
        grouped[module_of(key)] += seconds  # type: ignore[assignment]  # fractions count too
    return grouped


def module_of(key: FunctionKey) -> str:
    """Our modules by dotted name, a library by its own, C code by the library it belongs to."""
    file, _, name = key
    if file == "~":
        owner = re.search(r"(?:of '|<built-in method )(\w+)\.", name)
        return f"{owner[1]} (compiled)" if owner else "built-in"
    parts = PurePath(file).with_suffix("").parts
    if "datum_compute" in parts:
        return ".".join(parts[parts.index("datum_compute") :]).removesuffix(".__init__")
    if "site-packages" in parts:
        return parts[parts.index("site-packages") + 1]
    return parts[-1] if len(parts) < 2 or parts[-2].startswith("python") else parts[-2]


def _modules_table(own: Mapping[FunctionKey, float]) -> str:
    total = sum(own.values())
    rows = [
        f"{seconds:8.2f}  {100 * seconds / total:5.1f}%  {module}"
        for module, seconds in group_by_module(own).most_common(MODULES)
    ]
    return "\n".join(["OWN SEC.  SHARE  MODULE", *rows])


def _functions_table(own: Mapping[FunctionKey, float], calls: Mapping[FunctionKey, int]) -> str:
    top = sorted(own, key=lambda key: -own[key])[:FUNCTIONS]
    rows = [
        f"{own[key]:8.2f}  {calls[key]:9,}  {module_of(key)}: {key[2]}"
        + (f" (line {key[1]})" if key[1] else "")
        for key in top
    ]
    return "\n".join(["OWN SEC.      CALLS  FUNCTION", *rows])
