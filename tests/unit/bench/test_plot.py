"""The picture of the benchmarks says what the table says."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from bench import budgets
from bench.plot import FLOOR_AT, GOAL_AT, draw, measured_rows, rows_of
from bench.report import Result
from tests.support.paths import ROOT

PAGE = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("budget", "value", "place"),
    [
        (budgets.WATCH, budgets.WATCH.floor, FLOOR_AT),
        (budgets.WATCH, budgets.WATCH.goal, GOAL_AT),
        (budgets.GETS, budgets.GETS.floor, FLOOR_AT),
        (budgets.GETS, budgets.GETS.goal * 9, 1.0),
        (budgets.WATCH, budgets.WATCH.floor * 9, 0.02),
    ],
)
def test_floor_and_goal_are_at_the_same_place_for_every_unit(
    budget: budgets.Budget, value: float, place: float
) -> None:
    [row] = rows_of([Result(budget, value)])

    assert row.position == pytest.approx(place)


def test_what_could_not_be_measured_has_no_bar() -> None:
    assert rows_of([Result(budgets.WATCH, None)]) == []


def test_every_measured_value_of_the_page_is_drawn() -> None:
    rows = measured_rows(PAGE)
    drawn = "".join(ElementTree.fromstring(draw(rows)).itertext())

    assert len(rows) > 10
    for row in rows:
        assert row.what in drawn
        assert row.text in drawn
