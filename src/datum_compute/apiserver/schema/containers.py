"""Walks of objects, maps and lists over the compiled nodes of their entries.

Validating a write spends most of its time in these loops: each line runs for every field of every
object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from datum_compute.api import fields
from datum_compute.apiserver.schema import checks
from datum_compute.apiserver.schema.outcome import PathKeys, SchemaOutcome, SchemaPath, Walk


class ValueAction(Enum):
    KEEP = 1
    """The value stays, valid or not."""
    DROP = 2
    """A null that means "not set"."""


KEEP, DROP = ValueAction.KEEP, ValueAction.DROP

Admit = Callable[[Any, PathKeys, SchemaOutcome], Any]
"""Checks a value not of the expected type: an action, or the value to put in its place."""


class Node(NamedTuple):
    expected: type | None
    """None: any type; ``admit`` sees every value."""
    walk: Walk | None
    admit: Admit


def fields_walk(
    nodes: Mapping[str, Node],
    defaults: Sequence[tuple[str, Callable[[], Any]]],
    place: SchemaPath,
    required: Sequence[str],
    last: Walk | None,
    *,
    prunes: bool,
) -> Walk:
    """``required`` and ``last`` are checked when all fields are."""
    # Plain tuples unpack faster than named ones.
    plain = {name: (node.expected, node.walk, node.admit) for name, node in nodes.items()}
    # Of a scalar one value will do.
    fill = [
        (name, made, make if isinstance(made, dict | list) else None)
        for name, make in defaults
        for made in (make(),)
    ]

    miss = required_check(place, required)

    def walk(obj: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        gone: list[str] | None = None
        for key, value in obj.items():
            try:
                expected, child, admit = plain[key]
            except KeyError:
                if prunes:
                    out.add_unknown(place.child(key), loc)
                    gone = gone or []
                    gone.append(key)
                continue
            if type(value) is expected:
                if child is not None:
                    child(value, loc, out)
                continue
            action = admit(value, loc, out)
            if action is DROP:
                gone = gone or []
                gone.append(key)
            elif action is not KEEP:
                obj[key] = action  # the key exists, so the dict keeps its size
        if gone is not None:
            for key in gone:
                del obj[key]
        for key, made, make in fill:
            if key not in obj:
                obj[key] = made if make is None else make()
        for key in required:
            if key not in obj:
                miss(obj, loc, out)
                break
        if last is not None:
            last(obj, loc, out)

    return walk


_NOTHING: Mapping[str, Any] = {}


def skip_validated(name: str, node: Node, *, is_root: bool) -> Node:
    """The node of a field of the root, or of an object there, which need not walk a value that is
    known."""
    expected, inner, admit = node

    def walk(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        known = out.known
        held = known.get(name)
        if inner is None or value is held:
            return
        if is_root:
            out.known = held if type(held) is dict else _NOTHING
        inner(value, loc, out)
        out.known = known

    def admit_unknown(value: Any, loc: PathKeys, out: SchemaOutcome) -> Any:
        known = out.known
        held = known.get(name)
        if value is not None and value is held:
            return KEEP
        if is_root:
            out.known = held if type(held) is dict else _NOTHING
        action = admit(value, loc, out)
        out.known = known
        return action

    return Node(expected, inner and walk, admit_unknown)


def map_walk(node: Node) -> Walk:
    expected, child, admit = node

    def walk(obj: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        gone: list[str] = []
        for key, value in obj.items():
            if type(value) is expected:
                if child is not None:
                    child(value, (*loc, key), out)
                continue
            action = admit(value, (*loc, key), out)
            if action is DROP:
                gone.append(key)
            elif action is not KEEP:
                obj[key] = action
        for key in gone:
            del obj[key]

    return walk


def items_walk(node: Node, entry: SchemaPath) -> Walk:
    expected, child, admit = node

    def walk(items: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        for index, value in enumerate(items):
            if type(value) is expected:
                if child is not None:
                    child(value, (*loc, index), out)
                continue
            action = admit(value, (*loc, index), out)
            if action is DROP:
                # Dropping an item would renumber the others: null stays and is an error.
                wanted = checks.TYPE_NAMES[expected] if expected else "integer,string"
                checks.add_type_error(entry, wanted, None, (*loc, index), out)
            elif action is not KEEP:
                items[index] = action

    return walk


def required_check(place: SchemaPath, names: Sequence[str]) -> Walk:
    def check(obj: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        for name in names:
            if name not in obj:
                out.add(fields.required(place.child(name).at(loc)))

    return check
