"""``anyOf``, ``oneOf`` and ``not``: each part validates the value and changes nothing.

When none fits, the errors of the part that has the fewest are reported as well.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from datum_compute.api import fields
from datum_compute.apiserver.schema.outcome import (
    PathKeys,
    SchemaOutcome,
    SchemaPath,
    TooManyErrors,
    Walk,
)


def any_of(place: SchemaPath, parts: list[Walk]) -> Walk:
    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        closest: SchemaOutcome | None = None
        for part in parts:
            found = _try(part, value, loc)
            if not found.errors:
                return
            if closest is None or len(found.errors) < len(closest.errors):
                closest = found
        _add_composite(place, "must validate at least one schema (anyOf)", loc, out)
        _add_all(closest, out)

    return check


def one_of(place: SchemaPath, parts: list[Walk]) -> Walk:
    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        matching = 0
        closest: SchemaOutcome | None = None
        for part in parts:
            found = _try(part, value, loc)
            if not found.errors:
                matching += 1
            elif closest is None or len(found.errors) < len(closest.errors):
                closest = found
        if matching == 1:
            return
        count = f"Found {matching} valid alternatives" if matching else "Found none valid"
        text = f"must validate one and only one schema (oneOf). {count}"
        _add_composite(place, text, loc, out)
        if not matching:
            _add_all(closest, out)

    return check


def none_of(place: SchemaPath, part: Walk) -> Walk:
    def check(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        found = _try(part, value, loc)
        if not found.errors:
            _add_composite(place, "must not validate the schema (not)", loc, out)

    return check


def _try(part: Walk, value: Any, loc: PathKeys) -> SchemaOutcome:
    found = SchemaOutcome()
    with suppress(TooManyErrors):
        part(value, loc, found)
    return found


def _add_all(closest: SchemaOutcome | None, out: SchemaOutcome) -> None:
    for error in closest.errors if closest else ():
        out.add(error)


def _add_composite(place: SchemaPath, text: str, loc: PathKeys, out: SchemaOutcome) -> None:
    # Upstream puts these at "<nil>"; the path is in the text, and useful in the field too.
    path = place.at(loc)
    out.add(fields.invalid(path or "<nil>", "", f'"{path}" {text}'))
