"""Quantities are exact; what rounds, rounds up."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api import quantities


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        (2, "2"),
        ("0", "0"),
        ("500m", "0.5"),
        ("1.5Gi", "1610612736"),
        ("2048Mi", "2147483648"),
        ("12e6", "12000000"),
        ("1E3", "1000"),
        ("1E", "1000000000000000000"),
        (".5", "0.5"),
        ("+1k", "1000"),
        ("-1", "-1"),
        ("100n", "1e-7"),
    ],
)
def test_parse(text: int | str, amount: str) -> None:
    assert quantities.parse(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1gi", "1KiB", "e3", "--1", "1e", "1.2.3"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(quantities.QuantityError):
        quantities.parse(text)


def test_millicores_and_mebibytes_round_up() -> None:
    assert quantities.millis("1") == 1000
    assert quantities.millis("0.0001") == 1
    assert quantities.mebibytes("2Gi") == 2048
    assert quantities.mebibytes("1") == 1
    assert quantities.mebibytes("1M") == 1


@pytest.mark.parametrize(
    ("amount", "binary", "text"),
    [
        ("0", False, "0"),
        ("1.5", False, "1500m"),
        ("2000", False, "2k"),
        ("2147483648", True, "2Gi"),
        ("1000", True, "1000"),
        ("0.5", True, "500m"),
        ("-1000", False, "-1k"),
    ],
)
def test_format(amount: str, binary: bool, text: str) -> None:
    assert quantities.format(Decimal(amount), binary=binary) == text


@given(st.integers(-(10**18), 10**18), st.booleans())
def test_what_is_formatted_parses_to_the_same(nanos: int, binary: bool) -> None:
    amount = Decimal(nanos) / 10**9

    assert quantities.parse(quantities.format(amount, binary=binary)) == amount
