"""Sets of fields, in the form of ``FieldsV1``.

A set is a tree of dicts: a label leads to what is in the set below it. A leaf is in the set; a
dict with content is in the set only if it has the label ``.``. So ``{"f:a": {}}`` has ``a``, and
``{"f:a": {"f:b": {}}}`` has ``a.b`` and not ``a``.

No function changes its arguments, and results share subtrees with them: a set that many objects
have exists once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

FieldSet = dict[str, Any]

ITSELF = "."
LEAF: FieldSet = {}
"""Shared by all sets, and never changed."""


def is_member(below: FieldSet) -> bool:
    """Whether the place that has this below it is itself in the set."""
    return not below or ITSELF in below


def with_itself(below: FieldSet) -> FieldSet:
    return below if is_member(below) else {ITSELF: LEAF, **below}


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    out = one
    for label, theirs in other.items():
        mine = out.get(label)
        if mine is None:
            new = theirs
        elif mine is theirs:
            continue
        elif not theirs:
            new = with_itself(mine)
        elif not mine:
            new = with_itself(theirs)
        else:
            new = union(mine, theirs)
        if new is not mine:
            if out is one:
                out = dict(one)
            out[label] = new
    return out


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in ``one`` and not in ``other``; the very ``one`` if nothing is in both."""
    out = one
    for label, theirs in other.items():
        mine = one.get(label)
        if mine is None:
            continue
        if not mine:
            if not is_member(theirs):
                continue
            rest: FieldSet = {}
        elif not theirs:
            if ITSELF not in mine:
                continue
            rest = {key: below for key, below in mine.items() if key != ITSELF}
        else:
            rest = difference(mine, theirs)
            if rest is mine:
                continue
        if out is one:
            out = dict(one)
        if not rest:
            del out[label]
        else:
            out[label] = normal(rest)
    return out


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    out: FieldSet = {}
    for label, mine in one.items():
        theirs = other.get(label)
        if theirs is None:
            continue
        if not mine or not theirs:
            if is_member(mine) and is_member(theirs):
                out[label] = LEAF
        elif both := intersection(mine, theirs):
            out[label] = normal(both)
    return out


def normal(below: FieldSet) -> FieldSet:
    """A place with nothing below it is a leaf."""
    return LEAF if len(below) == 1 and ITSELF in below else below


def read(wire: Any) -> FieldSet:
    """The set that a client gives. Raises ValueError for what is none."""
    if not isinstance(wire, dict):
        raise ValueError("a set of fields is an object")
    out: FieldSet = {}
    for label, below in wire.items():
        if label != ITSELF and not _is_label(label):
            raise ValueError(f"{label[:100]} is no field, key, value or index")
        out[label] = normal(read(below))
    return out


def _is_label(label: str) -> bool:
    form, content = label[:2], label[2:]
    if form == "f:":
        return True
    if form not in ("k:", "v:", "i:"):
        return False
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(value, dict) if form == "k:" else form == "v:" or type(value) is int


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """The members, in order, as messages show them: ``.spec.ports[name="p"].port``."""
    for label in sorted(fields, key=_rank):
        if label == ITSELF:
            continue
        below, path = fields[label], prefix + label_text(label)
        if is_member(below):
            yield path
        yield from paths(below, path)


def _rank(label: str) -> tuple[int, str]:
    return "fkvi".find(label[0]), label


def label_text(label: str) -> str:
    form, content = label[0], label[2:]
    if form == "f":
        return f".{content}"
    if form == "k":
        keys = msgspec.json.decode(content)
        return f"[{','.join(f'{key}={_text(value)}' for key, value in keys.items())}]"
    return f"[={content}]" if form == "v" else f"[{content}]"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
