"""The benchmarks as a picture: each value between its floor and its goal.

Values have many units, so each row has a scale of its own: the floor and the goal are always at
the same places, and a bar that reaches into the green has met the goal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from bench.report import Result, format_value

FLOOR_AT, GOAL_AT, END = 0.4, 0.8, 1.0
LEFT, WIDTH, ROW = 400, 420, 30


class PlotRow(NamedTuple):
    number: str
    what: str
    value: float
    floor: float
    goal: float
    text: str
    """The value with its unit."""

    @property
    def position(self) -> float:
        """Where the value is between 0 and 1; the floor and the goal have their places."""
        reached = (self.value - self.floor) / (self.goal - self.floor)
        return max(0.02, min(END, FLOOR_AT + reached * (GOAL_AT - FLOOR_AT)))


def rows_of(results: Sequence[Result]) -> list[PlotRow]:
    """Of what could be measured."""
    return [
        PlotRow(
            str(each.budget.number),
            each.budget.what.replace("`", ""),
            each.value,
            each.budget.floor,
            each.budget.goal,
            format_value(each.value, each.budget.unit),
        )
        for each in results
        if each.value is not None
    ]


_ROW = re.compile(r"^\| (\d+) \| (.+?) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def measured_rows(page: str) -> list[PlotRow]:
    """The rows of the table of measured values in a page."""
    return [
        PlotRow(
            number,
            what.replace("`", ""),
            _number(value),
            _number(floor),
            _number(goal),
            value.strip(),
        )
        for number, what, value, floor, goal in _ROW.findall(page)
    ]


def _number(text: str) -> float:
    return float(text.split()[0].split("/")[0].replace(",", ""))


def draw(rows: Sequence[PlotRow]) -> str:
    height = 64 + ROW * len(rows)
    floor, goal = (LEFT + WIDTH * at for at in (FLOOR_AT, GOAL_AT))
    bottom = height - 16
    parts = [
        f'<rect class="under" x="{LEFT}" y="40" width="{WIDTH * FLOOR_AT:.0f}"'
        f' height="{bottom - 40}"/>',
        f'<rect class="over" x="{goal:.0f}" y="40" width="{WIDTH * (END - GOAL_AT):.0f}"'
        f' height="{bottom - 40}"/>',
        f'<text x="{floor:.0f}" y="30" text-anchor="middle">floor</text>',
        f'<text x="{goal:.0f}" y="30" text-anchor="middle">goal</text>',
        f'<path class="mark" d="M{floor:.0f} 36V{bottom}M{goal:.0f} 36V{bottom}"/>',
    ]
    for at, row in enumerate(rows):
        y = 46 + at * ROW
        kind = "good" if row.position >= GOAL_AT else "fair" if row.position >= FLOOR_AT else "bad"
        parts.append(
            f'<text x="{LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(row.what)}</text>'
            f'<rect class="{kind}" x="{LEFT}" y="{y + 2}" width="{WIDTH * row.position:.0f}"'
            f' height="18" rx="3"/><text x="{LEFT + WIDTH + 10}" y="{y + 15}" class="bold">'
            f"{escape(row.text)}</text>"
        )
    body = "\n  ".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 110} {height}"'
        ' font-family="system-ui, sans-serif" font-size="13" role="img" aria-labelledby="t d">\n'
        '  <title id="t">Benchmarks between floor and goal</title>\n'
        '  <desc id="d">A bar for each measured value; each row has its own scale, on which floor'
        " and goal are at the same place.</desc>\n"
        "  <defs><style>.under{fill:#fdf1f0}.over{fill:#eefaf1}.good{fill:#3c9a5f}"
        ".fair{fill:#4a76c9}.bad{fill:#c24a4a}.mark{stroke:#8a93a1;stroke-dasharray:4 3}"
        ".bold{font-weight:600}</style></defs>\n"
        f'  <rect width="100%" height="100%" fill="#fff"/>\n  {body}\n</svg>\n'
    )
