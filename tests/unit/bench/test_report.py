"""The table of a benchmark, and the verdict on each value."""

from __future__ import annotations

import json

import pytest

from bench.budgets import Budget, Verdict
from bench.report import Result, format_value, render_details, render_table, to_json

RATE = Budget(1, "creates", "/s", 1800, 4300)
DELAY = Budget(12, "from deploy to Available", "s", 20, 5)


@pytest.mark.parametrize(
    ("budget", "value", "verdict"),
    [
        (RATE, 5000.0, Verdict.GOAL),
        (RATE, 4300.0, Verdict.GOAL),
        (RATE, 4299.9, Verdict.FLOOR),
        (RATE, 1800.0, Verdict.FLOOR),
        (RATE, 1799.9, Verdict.MISSED),
        (DELAY, 4.2, Verdict.GOAL),
        (DELAY, 5.0, Verdict.GOAL),
        (DELAY, 20.0, Verdict.FLOOR),
        (DELAY, 20.1, Verdict.MISSED),
        (DELAY, None, Verdict.FAILED),
    ],
)
def test_verdict_compares_in_the_direction_of_the_goal(
    budget: Budget, value: float | None, verdict: Verdict
) -> None:
    assert budget.verdict(value) == verdict


def test_the_table_is_aligned_and_marks_missed_goals() -> None:
    table = render_table([Result(RATE, 4567.8), Result(DELAY, 31.44), Result(DELAY, None)])

    assert table.splitlines() == [
        " #   WHAT                         VALUE     FLOOR      GOAL   VERDICT",
        " 1   creates                    4,568/s   1,800/s   4,300/s   goal met",
        "12   from deploy to Available    31.4 s      20 s       5 s   FLOOR MISSED",
        "12   from deploy to Available         -      20 s       5 s   NOT MEASURED",
    ]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(12345.6, "/s", "12,346/s"), (1.514, "s", "1.51 s"), (99.96, "", "100"), (0.0, "s", "0 s")],
)
def test_values_keep_their_significant_figures(value: float, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


def test_details_come_largest_first() -> None:
    details = render_details(Result(DELAY, 3.0, {"hub": 1.0, "cell": 1.5, "project": 0.5}))

    assert [line.split() for line in details.splitlines()] == [
        ["1.5", "cell"],
        ["1", "hub"],
        ["0.5", "project"],
    ]


def test_the_json_report_has_values_verdicts_and_errors() -> None:
    failed = Result(DELAY, None, error="TimeoutError: ")
    first, second = json.loads(to_json([Result(RATE, 2000.0, {"a": 1.0}), failed]))

    assert first == {
        "number": 1,
        "what": "creates",
        "unit": "/s",
        "value": 2000.0,
        "floor": 1800,
        "goal": 4300,
        "verdict": "floor met",
        "details": {"a": 1.0},
        "error": "",
    }
    assert (second["value"], second["verdict"], second["error"]) == (
        None,
        "NOT MEASURED",
        "TimeoutError: ",
    )
