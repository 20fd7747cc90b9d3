"""The loops of macros. Each charges what its body takes, once a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datum_compute.apiserver.cel.program import Run, Slots
from datum_compute.apiserver.cel.values import NO_OVERLOAD, Budget, CelError, OverBudget

Loop = Callable[[Run, int, list[Run], int], Run]


def _entries(value: Any) -> Any:
    if isinstance(value, list | dict):
        return value
    raise CelError(NO_OVERLOAD)


def _quantifier(decisive: bool) -> Loop:
    def build(items: Run, slot: int, bodies: list[Run], steps: int) -> Run:
        (test,) = bodies

        def run(slots: Slots) -> bool:
            budget: Budget = slots[0]
            failure: CelError | None = None
            for entry in _entries(items(slots)):
                budget.left -= steps
                if budget.left < 0:
                    raise OverBudget
                slots[slot] = entry
                try:
                    if test(slots) is decisive:
                        return bool(decisive)
                except CelError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not decisive

        return run

    return build


def _exactly_one(items: Run, slot: int, bodies: list[Run], steps: int) -> Run:
    (test,) = bodies

    def run(slots: Slots) -> bool:
        found = 0
        for entry in _entries(items(slots)):
            slots[0].charge(steps)
            slots[slot] = entry
            found += test(slots) is True
        return found == 1

    return run


def _collected(items: Run, slot: int, bodies: list[Run], steps: int) -> Run:
    *tests, make = bodies

    def run(slots: Slots) -> list[Any]:
        found = []
        for entry in _entries(items(slots)):
            slots[0].charge(steps)
            slots[slot] = entry
            if not tests or tests[0](slots) is True:
                found.append(make(slots))
        return found

    return run


def _filtered(items: Run, slot: int, bodies: list[Run], steps: int) -> Run:
    return _collected(items, slot, [*bodies, lambda slots: slots[slot]], steps)


MACROS = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "existsOne": (2,),
    "map": (2, 3),
    "filter": (2,),
    "optMap": (2,),
    "optFlatMap": (2,),
}
LOOPS: dict[str, Loop] = {
    "all": _quantifier(decisive=False),
    "exists": _quantifier(decisive=True),
    "exists_one": _exactly_one,
    "existsOne": _exactly_one,
    "map": _collected,
    "filter": _filtered,
}
