"""What a walk reports, and how it remembers where it is.

Paths are only needed when something is wrong, so the walk carries as little as possible:
each compiled node knows its :class:`SchemaPath`, a path with holes where lists and maps are
entered, and the walk carries just the :data:`PathKeys`, the indexes and keys that fill
those holes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from datum_compute.api.fields import MAX_ERRORS, MAX_TEXT, FieldError

PathKeys = tuple[int | str, ...]

MAX_UNKNOWN = 100
"""As the real server, whose decoder stops collecting there."""


class SchemaOutcome:
    """What one walk found. The object itself was changed in place."""

    __slots__ = ("errors", "known", "unknown")

    def __init__(self, known: Mapping[str, Any] | None = None) -> None:
        self.known = known or {}
        """Values at the root that are not judged, if the object has the very same; within an
        object at the root, the values of the one that is known."""
        self.unknown: list[str] = []
        """Paths of fields that were dropped, as kubectl shows them: ``spec.list[0].y``. Of
        many, the first :data:`MAX_UNKNOWN`."""
        self.errors: list[FieldError] = []

    def add(self, error: FieldError) -> None:
        """Raises :class:`TooManyErrors` at one more than a response reports: a body of
        three megabytes can have a million, and each takes longer than its bytes."""
        self.errors.append(error)
        if len(self.errors) > MAX_ERRORS:
            raise TooManyErrors

    def add_unknown(self, place: SchemaPath, location: PathKeys) -> None:
        if len(self.unknown) < MAX_UNKNOWN:
            self.unknown.append(place.at(location)[:MAX_TEXT])


class TooManyErrors(Exception):
    """Ends a walk: what it found is more than a response reports."""


Walk = Callable[[Any, PathKeys, SchemaOutcome], None]
"""Validates (and in containers changes) one value. ``Any`` is whatever JSON holds."""


@dataclass(frozen=True, slots=True)
class SchemaPath:
    """The path of a schema node, in pieces between the holes."""

    pieces: tuple[str, ...] = ("",)

    @property
    def is_of_root(self) -> bool:
        """Whether it is a field of the whole object; False for a name with a dot."""
        return len(self.pieces) == 1 and "." not in self.pieces[0] and bool(self.pieces[0])

    def child(self, name: str) -> SchemaPath:
        *before, last = self.pieces
        joined = f"{last}.{name}" if last or before else name
        return SchemaPath((*before, joined))

    def entry(self) -> SchemaPath:
        """Any one entry of the list or map at this place."""
        return SchemaPath((*self.pieces, ""))

    def at(self, location: PathKeys) -> str:
        text = self.pieces[0]
        for hole, piece in zip(location, self.pieces[1:], strict=True):
            step = f"[{hole}]" if isinstance(hole, int) else f".{hole}"
            text = f"{text}{step}{piece}"
        return text.removeprefix(".")
