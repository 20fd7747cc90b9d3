"""Whether a process is well, and whether it is ready, each as a list of checks in words.

A check answers what is missing; nothing missing is well. Checks are asked when somebody
asks, and never wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_TOLD = 20
"""Of one check; a thousand clusters that are missing need not all be told by name."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    name: str
    missing: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class HealthReport:
    healthy: bool
    text: str


def report(path: str, checks: Sequence[HealthCheck], *, verbose: bool) -> HealthReport:
    """One word when all is well and nobody asked for more; else a line for each check."""
    lines: list[str] = []
    failed = False
    for check in checks:
        missing = list(check.missing())
        if not missing:
            lines.append(f"[+]{check.name} ok")
            continue
        failed = True
        lines.append(f"[-]{check.name} failed: {missing[0]}")
        lines += [f"    {text}" for text in missing[1:MAX_TOLD]]
        if len(missing) > MAX_TOLD:
            lines.append(f"    and {len(missing) - MAX_TOLD} more")
    if not failed and not verbose:
        return HealthReport(True, "ok")
    lines.append(f"{path} check {'failed' if failed else 'passed'}")
    return HealthReport(not failed, "".join(f"{line}\n" for line in lines))
