"""Quantities are exact; what rounds, rounds up."""

from __future__ import annotations

from decimal import Decimal

import pytest

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
        ("9" * 100_000, str(2**63 - 1)),
        ("16E", str(2**63 - 1)),
        ("-1e" + "9" * 5_000, str(1 - 2**63)),
        ("0e999999999", "0"),
        ("1e00006", "1000000"),
    ],
)
def test_parse(text: int | str, amount: str) -> None:
    assert quantities.parse(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1gi", "1KiB", "e3", "--1", "1e", "1.2.3"])
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(quantities.QuantityError):
        quantities.parse(text)


def test_millicores_and_mebibytes_round_up() -> None:
    assert quantities.millis("1") == 1000
    assert quantities.millis("0.0001") == 1
    assert quantities.mebibytes("2Gi") == 2048
    assert quantities.mebibytes("1") == 1
    assert quantities.mebibytes("1M") == 1
    assert quantities.mebibytes("1e-" + "9" * 5_000) == 1
