"""How a call is evaluated: by the one overload that the types choose, or else by the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datum_compute.apiserver.cel import functions
from datum_compute.apiserver.cel.functions import Overload
from datum_compute.apiserver.cel.list_types import find_operator
from datum_compute.apiserver.cel.program import CelNode, Run, Slots
from datum_compute.apiserver.cel.types import DYN, FIXED_SIZE, NULL, SCALARS, CelType
from datum_compute.apiserver.cel.values import NO_OVERLOAD, CelError, type_name

DYNAMIC_PATTERN_STEPS = 200
"""For a regular expression that is not a constant: it is compiled at every evaluation."""
_CALL_STEPS = 25
"""For a call with a text, beyond the text: some 1 us, where a step takes 38 ns."""
_DISPATCH_STEPS = 50
"""For a choice by the values: some 2 us."""
_PARSE_STEPS = 150
"""For a text that is read as something else: some 6 us."""
_PARSING = frozenset(
    {
        *("ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "containsIP", "containsCIDR"),
        *("url", "isURL", "quantity", "isQuantity", "semver", "isSemver"),
        *("duration", "timestamp", "int", "uint", "double", "bool", "string", "format"),
    }
)
_DIRECT: dict[str, Callable[[Any, Any], bool]] = {
    "_==_": lambda one, other: bool(one == other),
    "_!=_": lambda one, other: bool(one != other),
}


def build_call(name: str, chosen: list[Overload], nodes: list[CelNode]) -> Run:
    """``chosen`` are the overloads that the types of the arguments ``nodes`` leave."""
    runs = tuple(node.run for node in nodes)
    types = [node.type for node in nodes]
    if len(chosen) == 1 and not any(_is_open(one) for one in types):
        overload = chosen[0]
        if name in ("_==_", "_!=_", "@in", "_+_"):
            if (special := find_operator(name, types)) is not None:
                return _with_budget(special, runs)
            if name in _DIRECT and all(map(_is_flat, types)):
                scalar = types[0].name in SCALARS
                return (_plain if scalar else _charged)(_DIRECT[name], runs)
            if name == "_+_" and types[0].name in FIXED_SIZE:
                return _plain(overload.run, runs)
        if overload.takes_budget:
            return _with_budget(overload.run, runs)
        if all(one.name in FIXED_SIZE for one in types):
            return _plain(overload.run, runs)
        constant = nodes[1].constant if len(nodes) == 2 else None
        if name == "matches" and isinstance(constant, str):
            search, text = functions.pattern(constant).matches, runs[0]
            factor = max(len(constant) // 4, 1)

            def match(slots: Slots) -> bool:
                value = text(slots)
                slots[0].charge(_CALL_STEPS + len(value) * factor // 10)
                return search(value)

            return match
        extra = _PARSE_STEPS if name in _PARSING else _CALL_STEPS
        if name in ("matches", "find", "findAll"):
            extra = DYNAMIC_PATTERN_STEPS
        return _charged(overload.run, runs, extra)
    return _dispatched(tuple(chosen), runs)


def _is_open(kind: CelType) -> bool:
    """Whether the values may be of other types than the one that was checked."""
    return kind in (DYN, NULL) or any(_is_open(one) for one in kind.params)


def _is_flat(kind: CelType) -> bool:
    """Whether Python compares the values as they are to be compared, truth and numbers apart."""
    return kind.name in SCALARS or (
        kind.name in ("list", "map") and all(one.name in SCALARS for one in kind.params)
    )


def _plain(call: Callable[..., Any], runs: tuple[Run, ...]) -> Run:
    if len(runs) == 1:
        only = runs[0]
        return lambda slots: call(only(slots))
    if len(runs) == 2:
        left, right = runs
        return lambda slots: call(left(slots), right(slots))
    return lambda slots: call(*[run(slots) for run in runs])


def _with_budget(call: Callable[..., Any], runs: tuple[Run, ...]) -> Run:
    return lambda slots: call(slots[0], *[run(slots) for run in runs])


def _charged(call: Callable[..., Any], runs: tuple[Run, ...], extra: int = 0) -> Run:
    def run(slots: Slots) -> Any:
        args = [one(slots) for one in runs]
        slots[0].charge(_steps(args) + extra)
        return call(*args)

    return run


def _steps(args: list[Any]) -> int:
    steps = 1
    for one in args:
        if isinstance(one, list | dict):
            steps += len(one)
        elif isinstance(one, str | bytes):
            steps += len(one) // 10
    return steps


def _dispatched(chosen: tuple[Overload, ...], runs: tuple[Run, ...]) -> Run:
    """Chooses by the values, where the types leave it open."""
    by_names: dict[tuple[str, ...], Overload | None] = {}

    def run(slots: Slots) -> Any:
        args = [one(slots) for one in runs]
        slots[0].charge(_steps(args) + _DISPATCH_STEPS)
        names = tuple([type_name(one) for one in args])
        if names not in by_names:
            by_names[names] = next((one for one in chosen if _fits(one.params, names)), None)
        overload = by_names[names]
        if overload is None:
            raise CelError(NO_OVERLOAD)
        try:
            return overload.run(*([slots[0], *args] if overload.takes_budget else args))
        except (TypeError, AttributeError):  # values inside of types that do not fit
            raise CelError(NO_OVERLOAD) from None

    return run


def _fits(params: tuple[CelType, ...], names: tuple[str, ...]) -> bool:
    return all(
        wanted.name in ("A", "K", "V", "dyn", name)
        for wanted, name in zip(params, names, strict=True)
    )
