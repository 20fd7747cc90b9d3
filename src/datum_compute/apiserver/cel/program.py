"""A compiled expression: closures that take the slots of an evaluation.

The budget is first in the slots, then the variables, then those of the macros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from datum_compute.apiserver.cel.types import UNBOUNDED, CelType
from datum_compute.apiserver.cel.values import Budget

Slots = list[Any]
Run = Callable[[Slots], Any]


class CelNode(NamedTuple):
    type: CelType
    run: Run
    cost: int = 0
    size: int = 1
    """The most items or characters that the value can have."""
    constant: Any = None
    """Of a text, which may be a regular expression."""


class CompiledProgram:
    """Implements :class:`~datum_compute.apiserver.cel.CelProgram`."""

    def __init__(self, node: CelNode, variables: Sequence[str], used: set[str], slots: int) -> None:
        self.type = node.type
        self.cost = min(node.cost, UNBOUNDED)
        self._run = node.run
        self._variables = tuple(variables)
        self._used = used
        self._empty = [None] * (slots - len(self._variables) - 1)

    def uses(self, variable: str) -> bool:
        return variable in self._used

    def evaluate(self, values: Mapping[str, Any], budget: Budget) -> Any:
        given = [values.get(name) for name in self._variables]
        budget.charge(1)
        return self._run([budget, *given, *self._empty])
