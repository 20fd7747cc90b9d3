"""Reading an unvalidated document and collecting its errors.

A :class:`FieldValue` is a value with its path. Reading below one that is absent or of another
type gives an absent one, so rules need not check at every step. Each error is kept with an
*identity*, the path with list items known by their names instead of their positions, and with
its value. Two versions of an object have the same error when identity, wording and value are
the same, whatever the item's position in its list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from datum_compute.api import fields
from datum_compute.api.fields import FieldError, FieldErrorType, FieldPath

LONGEST_VALUE = 120
"""Characters of a value that an error repeats; the path leads to the rest."""

_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "boolean"),  # before int, which it is in Python
    (dict, "object"),
    (list, "array"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
)


@dataclass(frozen=True, slots=True)
class FieldValue:
    value: Any  # any JSON value; None where there is none
    path: FieldPath
    identity: tuple[str, ...] = ()
    ignores_case: bool = False
    """Whether the case of the value, a string, is ignored."""

    @property
    def given(self) -> bool:
        return self.value is not None

    def child(self, name: str) -> FieldValue:
        return FieldValue(self._of(name), self.path.child(name), (*self.identity, name))

    def entry(self, key: str) -> FieldValue:
        """An entry of a map whose keys are the user's."""
        return FieldValue(self._of(key), self.path.key(key), (*self.identity, key))

    def part(self, index: int, value: Any) -> FieldValue:
        """A part of a value that is written as one string."""
        return FieldValue(value, self.path.index(index), (*self.identity, str(index)))

    def _of(self, key: str) -> Any:
        return self.value.get(key) if isinstance(self.value, dict) else None


@dataclass(frozen=True, slots=True)
class Finding:
    error: FieldError
    identity: tuple[str, ...]
    subject: Any
    """The value that was validated, also where the error does not repeat it."""

    def is_same(self, other: Finding) -> bool:
        mine, its = self.error, other.error
        return (self.identity, mine.type, mine.detail) == (
            other.identity,
            its.type,
            its.detail,
        ) and self.subject == other.subject


class Findings:
    """The errors found so far. The methods named after an error add one; the others read a
    value, add an error when it is of the wrong type, and then return an empty value."""

    def __init__(self) -> None:
        self.found: list[Finding] = []

    def required(self, place: FieldValue, detail: str = "") -> None:
        self._add(place, fields.required(place.path, detail))

    def invalid(self, place: FieldValue, detail: str, *, shown: Any = None) -> None:
        value = place.value if shown is None else shown
        self._add(place, fields.invalid(place.path, _short(value), detail))

    def not_supported(self, place: FieldValue, supported: Iterable[str]) -> None:
        self._add(place, fields.not_supported(place.path, _short(place.value), supported))

    def duplicate(self, place: FieldValue) -> None:
        self._add(place, fields.duplicate(place.path, _short(place.value)))

    def forbidden(self, place: FieldValue, detail: str) -> None:
        self._add(place, fields.forbidden(place.path, detail))

    def not_found(self, place: FieldValue) -> None:
        self._add(place, fields.not_found(place.path, _short(place.value)))

    def too_long(self, place: FieldValue, maximum: int) -> None:
        self._add(place, fields.too_long(place.path, place.value, maximum))

    def unknown(self, place: FieldValue, detail: str) -> None:
        """What validation needs could not be read. The value was not validated, so it does not
        distinguish this error from an earlier one."""
        error = FieldError(str(place.path), FieldErrorType.INTERNAL, None, detail)
        self.found.append(Finding(error, place.identity, None))

    def is_mapping(self, place: FieldValue, *, needed: bool = False, detail: str = "") -> bool:
        if isinstance(place.value, dict):
            return True
        if place.given:
            self._wrong_type(place, "an object")
        elif needed:
            self.required(place, detail)
        return False

    def items(self, place: FieldValue, key: str | None = None) -> list[FieldValue]:
        """The items of a list. ``key`` is the field that names an item. When it is empty,
        items are strings and name themselves, ignoring case; when None, an item has only its
        position."""
        if not isinstance(place.value, list):
            if place.given:
                self._wrong_type(place, "a list")
            return []
        seen: dict[str, int] = {}
        return [
            FieldValue(
                item, place.path.index(i), (*place.identity, _name(item, i, key, seen)), key == ""
            )
            for i, item in enumerate(place.value)
        ]

    def mappings(self, place: FieldValue, key: str | None = None) -> list[FieldValue]:
        """The items of a list that are objects."""
        items = self.items(place, key)
        return [item for item in items if self.is_mapping(item, needed=True)]

    def text(self, place: FieldValue, *, needed: bool = False, detail: str = "") -> str:
        """The string; empty when it is absent or of another type."""
        if isinstance(place.value, str):
            if not place.value and needed:
                self.required(place, detail)
            return place.value
        if place.given:
            self._wrong_type(place, "a string")
        elif needed:
            self.required(place, detail)
        return ""

    def choice(self, place: FieldValue, supported: Iterable[str]) -> None:
        """A given value must be one of the supported ones; an empty string is not."""
        known = tuple(supported)
        self.text(place)
        if isinstance(place.value, str) and place.value not in known:
            self.not_supported(place, known)

    def integer(self, place: FieldValue, *, needed: bool = False) -> int | None:
        if isinstance(place.value, int) and not isinstance(place.value, bool):
            return place.value
        if place.given:
            self._wrong_type(place, "an integer")
        elif needed:
            self.required(place)
        return None

    def _wrong_type(self, place: FieldValue, expected: str) -> None:
        found = type_name(place.value)
        self._add(place, fields.type_invalid(place.path, found, f"must be {expected}"))

    def _add(self, place: FieldValue, error: FieldError) -> None:
        is_folded = place.ignores_case and isinstance(place.value, str)
        subject = place.value.lower() if is_folded else place.value
        self.found.append(Finding(error, place.identity, subject))


def type_name(value: Any) -> str:
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "null")


def _name(item: Any, index: int, key: str | None, seen: dict[str, int]) -> str:
    name = item if key == "" else item.get(key) if key and isinstance(item, dict) else None
    if not isinstance(name, str):
        return str(index)
    name = f"[{name.lower()}]"
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"


def _short(value: Any) -> Any:
    if isinstance(value, dict | list):
        return type_name(value)
    if isinstance(value, str) and len(value) > LONGEST_VALUE:
        return value[:LONGEST_VALUE] + "…"
    return value
