"""The Common Expression Language, as the validation rules of definitions and the match conditions
of webhooks use it.

:func:`compile_expression` parses an expression (``syntax``), checks its types against declared
ones (``types``) and turns it into closures over plain JSON values (``compiler``), with the
functions of ``functions`` and ``kubernetes``. What comes out is a :class:`CelProgram`
(``program``); nothing outside this package knows more of the language.

An evaluation has a budget, counted in steps and never by a clock: an expression that needs more
ends with :class:`OverBudget`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from datum_compute.apiserver.cel.compiler import compile_program
from datum_compute.apiserver.cel.syntax import CompileError
from datum_compute.apiserver.cel.types import CelType, declare, parse_type
from datum_compute.apiserver.cel.values import Budget, CelError, Optional, OverBudget


class CelProgram(Protocol):
    """A compiled expression."""

    type: CelType
    cost: int
    """An estimate of the most steps that an evaluation takes, by the sizes the types allow."""

    def uses(self, variable: str) -> bool: ...

    def evaluate(self, values: Mapping[str, Any], budget: Budget) -> Any:
        """The value. Raises CelError as the expression defines it, and OverBudget."""
        ...


def compile_expression(text: str, variables: Mapping[str, CelType]) -> CelProgram:
    """Raises CompileError, whose text says what is wrong and where."""
    return compile_program(text, variables)


__all__ = (
    "Budget",
    "CelError",
    "CelProgram",
    "CelType",
    "CompileError",
    "Optional",
    "OverBudget",
    "compile_expression",
    "declare",
    "parse_type",
)
