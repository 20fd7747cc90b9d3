"""Results as a table for users, and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.budgets import Budget

HEADER = ("#", "WHAT", "VALUE", "FLOOR", "GOAL", "VERDICT")


@dataclass(frozen=True)
class Result:
    budget: Budget
    value: float | None
    """None where the measurement itself failed."""
    details: Mapping[str, float] = field(default_factory=dict)
    """What the value is made of or to be read with, in the budget's unit."""
    error: str = ""


def render_table(results: Sequence[Result]) -> str:
    rows = [HEADER, *map(_row, results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    return "\n".join("   ".join(_cells(row, widths)).rstrip() for row in rows)


def render_details(result: Result) -> str:
    """The parts of one value, the largest first; empty where there are none."""
    parts = sorted(result.details.items(), key=lambda part: (-part[1], part[0]))
    return "\n".join(f"{format_value(value):>10}   {name}" for name, value in parts)


def to_json(results: Sequence[Result]) -> str:
    return json.dumps([_to_wire(result) for result in results], indent=2) + "\n"


def format_value(value: float | None, unit: str = "") -> str:
    """Whole from a hundred on, three figures below: more would be noise."""
    if value is None:
        return "-"
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    separator = "" if unit.startswith("/") or not unit else " "
    return f"{number}{separator}{unit}"


def _row(result: Result) -> tuple[str, ...]:
    budget = result.budget
    return (
        str(budget.number),
        budget.what,
        format_value(result.value, budget.unit),
        format_value(budget.floor, budget.unit),
        format_value(budget.goal, budget.unit),
        str(budget.verdict(result.value)),
    )


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Words to the left, numbers to the right."""
    return [
        cell.rjust(width) if column in (0, 2, 3, 4) else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _to_wire(result: Result) -> dict[str, Any]:
    budget = result.budget
    return {
        "number": budget.number,
        "what": budget.what,
        "unit": budget.unit,
        "value": result.value,
        "floor": budget.floor,
        "goal": budget.goal,
        "verdict": str(budget.verdict(result.value)),
        "details": dict(result.details),
        "error": result.error,
    }
