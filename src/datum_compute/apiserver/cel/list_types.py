"""Lists that a schema declares as sets or maps, whose order does not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datum_compute.apiserver.cel.types import CelType
from datum_compute.apiserver.cel.values import Budget, equal


def find_operator(name: str, types: list[CelType]) -> Callable[..., Any] | None:
    """The operator for such lists; None where the order counts."""
    left = types[0]
    if name == "@in" or not _has_order_free(left):
        return None
    if name == "_+_":
        return _merged(left) if left.list_type in ("set", "map") else None
    compare = _comparison(left)
    if name == "_!=_":
        return lambda budget, one, other: not compare(budget, one, other)
    return compare


def _has_order_free(kind: CelType) -> bool:
    if kind.list_type in ("set", "map") or any(map(_has_order_free, kind.params)):
        return True
    return any(_has_order_free(one) for _, one in (kind.fields or {}).values())


Compare = Callable[[Budget, Any, Any], bool]


def _comparison(kind: CelType) -> Compare:
    if not _has_order_free(kind):
        return lambda budget, one, other: equal(one, other, budget)
    if kind.fields is not None:
        inner = {name: _comparison(child) for name, child in kind.fields.values()}

        def same_fields(budget: Budget, one: Any, other: Any) -> bool:
            if not isinstance(one, dict) or not isinstance(other, dict):
                return equal(one, other, budget)
            budget.charge(len(one))
            return one.keys() == other.keys() and all(
                inner[key](budget, value, other[key])
                if key in inner
                else equal(value, other[key], budget)
                for key, value in one.items()
            )

        return same_fields
    item = _comparison(kind.item)

    def same_items(budget: Budget, one: Any, other: Any) -> bool:
        budget.charge(len(one))
        if len(one) != len(other):
            return False
        if isinstance(one, dict):
            return all(k in other and item(budget, v, other[k]) for k, v in one.items())
        if kind.list_type == "map":
            held = {_list_key(entry, kind.keys): entry for entry in other}
            keys = [_list_key(entry, kind.keys) for entry in one]
            return all(
                key in held and item(budget, entry, held[key])
                for key, entry in zip(keys, one, strict=True)
            )
        if kind.list_type == "set":
            budget.charge(len(one) * len(other) // 8)
            return all(any(item(budget, a, b) for b in other) for a in one)
        return all(item(budget, a, b) for a, b in zip(one, other, strict=True))

    return same_items


def _list_key(entry: Any, keys: tuple[str, ...]) -> Any:
    return tuple(repr(entry.get(key)) if isinstance(entry, dict) else None for key in keys)


def _merged(kind: CelType) -> Callable[..., Any]:
    """Of a set each value once; of a map the later entry, in the earlier's place."""

    def run(budget: Budget, one: list[Any], other: list[Any]) -> list[Any]:
        budget.charge(len(one) + len(other))
        if kind.list_type == "map":
            found = {_list_key(entry, kind.keys): entry for entry in one}
            found.update({_list_key(entry, kind.keys): entry for entry in other})
            return list(found.values())
        budget.charge(len(one) * len(other) // 8)
        return [*one, *(b for b in other if not any(equal(a, b, budget) for a in one))]

    return run
