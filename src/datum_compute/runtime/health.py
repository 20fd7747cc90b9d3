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
    notes: Callable[[], Sequence[str]] = tuple
    """What is listed with the check and does not fail it."""


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
        if missing:
            failed = True
            lines.append(f"[-]{check.name} failed: {missing[0]}")
            lines += _listed(missing[1:], MAX_LISTED - 1)
        else:
            lines.append(f"[+]{check.name} ok")
        lines += _listed(list(check.notes()), MAX_LISTED)
    if not failed and not verbose:
        return HealthReport(True, "ok")
    lines.append(f"{path} check {'failed' if failed else 'passed'}")
    return HealthReport(not failed, "".join(f"{line}\n" for line in lines))


def _listed(texts: Sequence[str], limit: int) -> list[str]:
    more = [f"    and {len(texts) - limit} more"] if len(texts) > limit else []
    return [f"    {text}" for text in texts[:limit]] + more
