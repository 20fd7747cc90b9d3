"""Field errors of validation, worded as Kubernetes words them.

Validation collects :class:`FieldError` records and never raises them; the server turns the
list into one ``Status`` with :func:`aggregate` for its message and, per error, a cause of
``field``, ``cause_reason`` and ``message``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any

MAX_ERRORS = 100
"""Faults that one response reports. A guess: more than anybody reads, and kilobytes, not
the megabytes that a large object can cause."""

MAX_TEXT = 1024
"""Characters of a value or a path in a message. A guess, like :data:`MAX_ERRORS`."""

_MAX_MESSAGE = 4 * MAX_TEXT
"""Characters of one fault's message: a value, a path and a rule."""


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A path into an object. Immutable: each step gives a new path.

    ``str(FieldPath.of("spec", "placements").index(1).child("cityCodes"))`` is
    ``spec.placements[1].cityCodes``.
    """

    text: str = ""

    @classmethod
    def of(cls, *names: str) -> FieldPath:
        return cls(".".join(names))

    def child(self, *names: str) -> FieldPath:
        return FieldPath(".".join((self.text, *names)) if self.text else ".".join(names))

    def index(self, position: int) -> FieldPath:
        return FieldPath(f"{self.text}[{position}]")

    def key(self, name: str) -> FieldPath:
        """An entry of a map whose keys are the user's, such as a label."""
        return FieldPath(f"{self.text}[{name}]")

    def __str__(self) -> str:
        return self.text or "<nil>"


class FieldErrorType(Enum):
    """The type of a field error: how it is worded, and the ``reason`` of its cause."""

    REQUIRED = ("Required value", "FieldValueRequired")
    INVALID = ("Invalid value", "FieldValueInvalid")
    TYPE_INVALID = ("Invalid value", "FieldValueTypeInvalid")
    NOT_SUPPORTED = ("Unsupported value", "FieldValueNotSupported")
    DUPLICATE = ("Duplicate value", "FieldValueDuplicate")
    FORBIDDEN = ("Forbidden", "FieldValueForbidden")
    TOO_LONG = ("Too long", "FieldValueTooLong")
    TOO_MANY = ("Too many", "FieldValueTooMany")
    NOT_FOUND = ("Not found", "FieldValueNotFound")
    INTERNAL = ("Internal error", "InternalError")

    @property
    def summary(self) -> str:
        return self.value[0]

    @property
    def reason(self) -> str:
        return self.value[1]


# The value is left out: absent, not the caller's to see, or too long to print.
_WITHOUT_VALUE = frozenset(
    {
        FieldErrorType.REQUIRED,
        FieldErrorType.FORBIDDEN,
        FieldErrorType.TOO_LONG,
        FieldErrorType.INTERNAL,
    }
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of one field. Make it with the function named after its type."""

    path: str
    type: FieldErrorType
    value: Any  # whatever JSON value the user wrote
    detail: str = ""

    @property
    def cause_reason(self) -> str:
        return self.type.reason

    @property
    def message(self) -> str:
        """The error without its path, as a ``Status`` cause carries it."""
        text = self.type.summary
        if self.type not in _WITHOUT_VALUE:
            text = f"{text}: {_quoted(self.value)}"
        return f"{text}: {self.detail}"[:_MAX_MESSAGE] if self.detail else text

    def __str__(self) -> str:
        return f"{self.path[:MAX_TEXT]}: {self.message}"


def required(path: FieldPath | str, detail: str = "") -> FieldError:
    return FieldError(str(path), FieldErrorType.REQUIRED, None, detail)


def invalid(path: FieldPath | str, value: Any, detail: str) -> FieldError:
    return FieldError(str(path), FieldErrorType.INVALID, value, detail)


def type_invalid(path: FieldPath | str, value: Any, detail: str) -> FieldError:
    return FieldError(str(path), FieldErrorType.TYPE_INVALID, value, detail)


def not_supported(path: FieldPath | str, value: Any, supported: Iterable[str]) -> FieldError:
    """``supported`` are listed in the order given, each in quotes; of very many, the first."""
    listed = ", ".join(f'"{one}"' for one in islice(supported, MAX_ERRORS))
    detail = f"supported values: {listed}" if listed else ""
    return FieldError(str(path), FieldErrorType.NOT_SUPPORTED, value, detail)


def duplicate(path: FieldPath | str, value: Any) -> FieldError:
    return FieldError(str(path), FieldErrorType.DUPLICATE, value)


def forbidden(path: FieldPath | str, detail: str) -> FieldError:
    return FieldError(str(path), FieldErrorType.FORBIDDEN, None, detail)


def not_found(path: FieldPath | str, value: Any) -> FieldError:
    return FieldError(str(path), FieldErrorType.NOT_FOUND, value)


def too_long(path: FieldPath | str, value: Any, maximum: int) -> FieldError:
    unit = "byte" if maximum == 1 else "bytes"  # upstream writes so of characters, too
    detail = f"may not be more than {maximum} {unit}"
    return FieldError(str(path), FieldErrorType.TOO_LONG, value, detail)


def too_many(path: FieldPath | str, count: int, maximum: int) -> FieldError:
    unit = "item" if maximum == 1 else "items"
    detail = f"must have at most {maximum} {unit}"
    return FieldError(str(path), FieldErrorType.TOO_MANY, count, detail)


def aggregate(errors: Sequence[FieldError]) -> str:
    """Several errors as one text: a single one as it is, more in brackets, repeats dropped.
    Of more than :data:`MAX_ERRORS`, the first."""
    texts = list(dict.fromkeys(str(error) for error in errors[:MAX_ERRORS]))
    if len(errors) > MAX_ERRORS:
        texts.append(f"and more: only the first {MAX_ERRORS} are reported")
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _quoted(value: Any) -> str:
    """In JSON, cut where it gets long. Encoded piece by piece, so that a large value costs no
    more than what is shown of it."""
    if isinstance(value, str):
        value = value[: MAX_TEXT + 1]
    text = ""
    for piece in _ENCODER.iterencode(value):
        text += piece
        if len(text) > MAX_TEXT:
            return f"{text[:MAX_TEXT]}…"
    return text


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
