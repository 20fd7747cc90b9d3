"""A table fits the width it is given; without one, every text is whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from datum_compute.cli.render.output import Cell, Colour, table

HEADER = ("NAME", "CITY", "IMAGE", "STATUS")
ROWS = [("api", "DFW", "registry.example/acme/api:1.4.2", Cell("Available", Colour.GREEN))]


def test_a_table_without_a_width_is_whole() -> None:
    assert table(HEADER, ROWS, width=None).splitlines()[1] == (
        "api    DFW    registry.example/acme/api:1.4.2   Available"
    )


def test_the_least_important_column_is_shortened_first() -> None:
    assert table(HEADER, ROWS, width=40, least=("IMAGE",)).splitlines() == [
        "NAME   CITY   IMAGE            STATUS",
        "api    DFW    registry.exam…   Available",
    ]


def test_a_column_that_cannot_be_shortened_enough_is_left_out() -> None:
    assert table(HEADER, ROWS, width=26, least=("IMAGE",)).splitlines() == [
        "NAME   CITY   STATUS",
        "api    DFW    Available",
    ]


@given(
    st.integers(1, 120),
    st.lists(st.tuples(*[st.text("ab ", max_size=40)] * 4), min_size=1, max_size=3),
)
def test_no_line_is_wider_than_the_terminal(width: int, rows: list[tuple[str, ...]]) -> None:
    drawn = table(HEADER, rows, width=width, least=("CITY", "IMAGE"))

    assert max(map(len, drawn.split("\n"))) <= width
