"""Health and readiness of a process, each a list of checks.

A check returns what is missing, empty when it passes. Checks run on each request and never
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_LISTED = 20
"""Lines of one check; not every one of a thousand missing clusters is listed."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    name: str
    missing: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class HealthReport:
    healthy: bool
    text: str


def report(path: str, checks: Sequence[HealthCheck], *, verbose: bool) -> HealthReport:
    """``ok`` when every check passes and ``verbose`` is off; else a line for each check."""
    lines: list[str] = []
    failed = False
    for check in checks:
        missing = list(check.missing())
        if not missing:
            lines.append(f"[+]{check.name} ok")
            continue
        failed = True
        lines.append(f"[-]{check.name} failed: {missing[0]}")
        lines += [f"    {text}" for text in missing[1:MAX_LISTED]]
        if len(missing) > MAX_LISTED:
            lines.append(f"    and {len(missing) - MAX_LISTED} more")
    if not failed and not verbose:
        return HealthReport(True, "ok")
    lines.append(f"{path} check {'failed' if failed else 'passed'}")
    return HealthReport(not failed, "".join(f"{line}\n" for line in lines))
