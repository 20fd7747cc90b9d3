"""Amounts as Kubernetes writes them: ``500m``, ``2``, ``1.5Gi``, ``12e6``.

Parsed into exact decimals; only the functions that say so round.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
)

_BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
}


_MAX = Decimal(2**63 - 1)
"""What Kubernetes makes of anything larger."""
_MAX_EXPONENT = 999
"""Beyond, an amount is more than the largest or less than any fraction that counts."""


class QuantityError(ValueError):
    """Not an amount."""


def parse(quantity: int | str) -> Decimal:
    """The amount in its base unit. Raises :class:`QuantityError`."""
    if isinstance(quantity, int):
        return Decimal(quantity)
    found = _FORM.fullmatch(quantity)
    if found is None:
        raise QuantityError(f"{quantity!r} is not a quantity such as 500m, 2 or 4Gi")
    number, suffix = Decimal(found["number"]), found["suffix"] or ""
    if suffix in _BINARY:
        number *= _BINARY[suffix]
    elif suffix in _DECIMAL:
        number *= _DECIMAL[suffix]
    else:
        number = number.scaleb(_exponent(suffix[1:]))
    return max(-_MAX, min(_MAX, number))


def _exponent(text: str) -> int:
    digits = text.lstrip("+-").lstrip("0")
    size = int(digits or 0) if len(digits) <= 3 else _MAX_EXPONENT
    return -size if text.startswith("-") else size


def millis(quantity: int | str) -> int:
    """Thousandths, rounded up: a CPU amount in millicores."""
    return _ceiling(parse(quantity) * 1000)


def mebibytes(quantity: int | str) -> int:
    """MiB, rounded up: what is claimed is never less than what is used."""
    return _ceiling(parse(quantity) / _BINARY["Mi"])


def _ceiling(amount: Decimal) -> int:
    return int(amount.to_integral_value(rounding=ROUND_CEILING))
