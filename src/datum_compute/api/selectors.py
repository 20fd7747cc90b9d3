"""Label and field selectors: from text or the wire to a yes or no.

The text forms are those of the Kubernetes API: ``a=b``, ``a==b``, ``a!=b``, ``a in (b,c)``,
``a notin (b,c)``, ``a``, ``!a``, ``a>1`` and ``a<1`` for labels, joined by commas; ``a=b`` and
``a!=b`` for fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from datum_compute.api.structural_schema import described


class SelectorError(ValueError):
    """The text is not a selector; the message says where."""


class LabelSelectorRequirement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    key: Annotated[str, described("Key of the label.", required=True)] = ""
    operator: Annotated[str, described("In, NotIn, Exists or DoesNotExist.", required=True)] = ""
    values: Annotated[
        tuple[str, ...], described("Values for In and NotIn.", list_type="atomic")
    ] = ()


class LabelSelectorSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A label selector as a field of an object."""

    match_labels: Annotated[dict[str, str], described("Labels and their values.")] = {}
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...],
        described("Further requirements.", list_type="atomic"),
    ] = ()


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    key: str
    operator: str
    """One of ``in``, ``notin``, ``exists``, ``!``, ``>``, ``<``."""
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.operator == "exists":
            return self.key in labels
        if self.operator == "!":
            return self.key not in labels
        if self.operator == "in":
            return labels.get(self.key) in self.values
        if self.operator in (">", "<"):
            return self._compares(labels.get(self.key, ""))
        # A label that is absent is not among the values either.
        return labels.get(self.key) not in self.values

    def _compares(self, text: str) -> bool:
        """Whether a label is a number on the wanted side of the value."""
        if not _INTEGER.fullmatch(text):
            return False
        found, bound = int(text), int(self.values[0])
        return found > bound if self.operator == ">" else found < bound

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator in (">", "<"):
            return f"{self.key}{self.operator}{self.values[0]}"
        if self.operator == "!":
            return f"!{self.key}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator == 'in' else '!='}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none at all matches everything."""

    requirements: tuple[LabelRequirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Raises :class:`SelectorError`."""
        return cls(tuple(_label_requirement(part) for part in _split(text)))

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any] | LabelSelectorSpec | None) -> LabelSelector:
        """A selector field of an object. Raises :class:`SelectorError`."""
        if wire is None:
            return cls()
        if isinstance(wire, LabelSelectorSpec):
            spec = wire
        else:
            try:
                spec = msgspec.convert(wire, LabelSelectorSpec)
            except msgspec.ValidationError as error:
                raise SelectorError(f"not a label selector: {error}") from error
        equal = [LabelRequirement(k, "in", (v,)) for k, v in sorted(spec.match_labels.items())]
        return cls((*equal, *(_expression(each) for each in spec.match_expressions)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Pairs of field path and wanted value; ``!=`` pairs must differ."""

    requirements: tuple[tuple[str, bool, str], ...] = ()
    """Path, whether equal is wanted, value."""

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        """Raises :class:`SelectorError`."""
        return cls(tuple(_field_requirement(part) for part in _split_fields(text)))

    def matches(self, obj_fields: Callable[[str], str]) -> bool:
        return all((obj_fields(path) == value) == equal for path, equal, value in self.requirements)

    def __str__(self) -> str:
        return ",".join(f"{p}{'=' if equal else '!='}{v}" for p, equal, v in self.requirements)


_WORD = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_WORD}"
_VALUE = rf"(?:{_WORD})?"
_EXISTS = re.compile(rf"\s*({_KEY})\s*")
_ABSENT = re.compile(rf"\s*!\s*({_KEY})\s*")
_EQUALITY = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*")
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*")
_ORDER = re.compile(rf"\s*({_KEY})\s*([<>])\s*(-?[0-9]{{1,18}})\s*")
_INTEGER = re.compile("[-+]?[0-9]{1,18}")
_SET_VALUE = re.compile(rf"\s*({_VALUE})\s*")


def _split(text: str) -> list[str]:
    """At commas outside parentheses; an empty text has no parts."""
    if not text.strip():
        return []
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return parts


def _label_requirement(part: str) -> LabelRequirement:
    if found := _EQUALITY.fullmatch(part):
        key, operator, value = found.groups()
        return LabelRequirement(key, "notin" if operator == "!=" else "in", (value,))
    if found := _SET.fullmatch(part):
        key, operator, listed = found.groups()
        return LabelRequirement(key, operator, _set_values(listed, part))
    if found := _ORDER.fullmatch(part):
        key, operator, bound = found.groups()
        return LabelRequirement(key, operator, (bound,))
    if found := _ABSENT.fullmatch(part):
        return LabelRequirement(found[1], "!")
    if found := _EXISTS.fullmatch(part):
        return LabelRequirement(found[1], "exists")
    raise SelectorError(f"unable to parse requirement: {part.strip()!r}")


def _set_values(listed: str, part: str) -> tuple[str, ...]:
    values = []
    for item in listed.split(","):
        found = _SET_VALUE.fullmatch(item)
        if found is None:
            raise SelectorError(f"unable to parse requirement: {part.strip()!r}")
        values.append(found[1])
    return tuple(values)


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def _expression(each: LabelSelectorRequirement) -> LabelRequirement:
    operator = _OPERATORS.get(each.operator)
    if operator is None:
        raise SelectorError(f"{each.operator!r} is not a valid label selector operator")
    if (operator in ("in", "notin")) != bool(each.values):
        raise SelectorError(f"values of {each.key!r} do not fit operator {each.operator}")
    return LabelRequirement(each.key, operator, each.values)


def _split_fields(text: str) -> list[str]:
    """At commas that are not escaped; empty parts are nothing."""
    return [part for part in re.split(r"(?<!\\),", text) if part]


def _field_requirement(part: str) -> tuple[str, bool, str]:
    found = re.fullmatch(r"([^=!]*)(==|=|!=)(.*)", part, re.DOTALL)
    if found is None:
        raise SelectorError(f"invalid selector: {part!r}; can't understand {part!r}")
    path, operator, value = found.groups()
    if fault := re.search(r"\\(?![\\,=])", re.sub(r"\\\\", "", value)):
        raise SelectorError(f"invalid field selector: invalid escape sequence at {fault.start()}")
    if re.search(r"(?<!\\)=", value):
        raise SelectorError("invalid field selector: unescaped character in value: '='")
    return path, operator != "!=", re.sub(r"\\([\\,=])", r"\1", value)
