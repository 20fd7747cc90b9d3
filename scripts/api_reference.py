"""Write the API reference, ``docs/reference/api.md``, from the types.

Kinds come in the order of ``datum_compute.api.kinds``, by group. Each shows its scope and
planes, its columns, its spec and status, and its conditions with their reasons. A shape that
a field refers to has a section of its own, after the first kind that needs it; shapes of no
group stand at the end.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from datum_compute.api.compute.reasons import Reason
from datum_compute.api.condition_types import DeclaredCondition
from datum_compute.api.kinds import KINDS, Kind
from datum_compute.api.printer_columns import PrinterColumn
from datum_compute.api.structural_schema import content_of, schema_of
from scripts import api_constants

Shape = type[msgspec.Struct]
Lines = Iterator[str]

INTRODUCTION = (
    "# API reference",
    "",
    "`make generate` writes this page from the types in `src/datum_compute/api`.",
    "The CustomResourceDefinitions in [deploy/crds](../../deploy/crds), and those of other systems "
    "in [deploy/local/crds](../../deploy/local/crds), come from the same types, "
    "and also have the patterns of strings.",
    "The rules here are those of the schema; "
    "[admission](../concepts/admission.md) validates Workloads further.",
    "",
    "Every object also has the metadata of any Kubernetes object.",
    "A field that is not required may be left out; the server fills in a default.",
    "An applied list is merged by a key or as a set where its rules define that, "
    "and replaced otherwise.",
    "",
    "A reason of compute names who acts on it, if anyone has to: the user or the platform team.",
    "Waiting does not help against one that is final.",
    "",
)


def rendered() -> str:
    """The whole page."""
    page = _Page()
    lines = [*INTRODUCTION, *_contents(), ""]
    for api_version, kinds in groupby(KINDS, lambda kind: kind.resource.api_version):
        lines += [f"## {api_version}", ""]
        for kind in kinds:
            lines += [*_kind(kind, page), *page.shapes_of(kind)]
    lines += ["## Shared shapes", "", *page.shared(), *_words()]
    return "\n".join(lines).rstrip("\n") + "\n"


class _Page:
    """Which shapes were referred to, and which of them are written."""

    def __init__(self) -> None:
        self._waiting: list[Shape] = []
        self._seen: dict[str, Shape] = {kind.resource.kind.lower(): kind.view for kind in KINDS}

    def refer(self, shape: Shape) -> str:
        """A link to the shape's section, which will be written."""
        anchor = shape.__name__.lower()
        if anchor not in self._seen:
            self._waiting.append(shape)
        elif self._seen[anchor] is not shape:
            raise ValueError(f"two shapes are called {shape.__name__}")
        self._seen[anchor] = shape
        return f"[{shape.__name__}](#{anchor})"

    def shapes_of(self, kind: Kind) -> Lines:
        """Those of the kind's own API that are not written, and what they refer to in turn."""
        package = api_constants.package_of(kind.view)
        yield from self._write(lambda shape: api_constants.package_of(shape) == package)

    def shared(self) -> Lines:
        yield from self._write(lambda shape: True)

    def _write(self, wanted: typing.Callable[[Shape], bool]) -> Lines:
        while here := [shape for shape in self._waiting if wanted(shape)]:
            self._waiting.remove(here[0])
            yield from (f"#### {here[0].__name__}", "", *_fields(here[0], self), "")


def _contents() -> Lines:
    for api_version, kinds in groupby(KINDS, lambda kind: kind.resource.api_version):
        names = [kind.resource.kind for kind in kinds]
        yield f"- `{api_version}`: " + ", ".join(f"[{name}](#{name.lower()})" for name in names)


def _kind(kind: Kind, page: _Page) -> Lines:
    resource = kind.resource
    scope = "namespaced" if resource.namespaced else "cluster-scoped"
    planes = ", ".join(plane_type.name for plane_type in kind.planes)
    yield from (f"### {resource.kind}", "", (kind.view.__doc__ or "").strip(), "")
    yield f"Served as `{resource.plural}`, {scope}, on these planes: {planes}."
    if kind.context:
        yield f"Milo's discovery shows it in: {kind.context.replace(',', ', ')}."
    parts = {each.name: each.type for each in msgspec.structs.fields(kind.view)}
    for part in ("spec", "status"):
        if part in parts:
            yield from ("", f"**{part}**", "", *_fields(parts[part], page))
    if kind.default_status:
        yield from ("", *_at_first(kind.default_status))
    yield from ("", "**columns of `kubectl get`**", "", *_columns(kind.columns), "")
    yield from _conditions("conditions", kind.conditions, api_constants.vocabulary_of(kind))
    for place, conditions in kind.nested:
        title = f"conditions of `{place}`"
        yield from _conditions(title, conditions, api_constants.vocabulary_of(kind))


def _fields(shape: Shape, page: _Page) -> Lines:
    schema = schema_of(shape)
    yield from _head("field", "type", "rules", "meaning")
    for each in msgspec.structs.fields(shape):
        name = each.encode_name
        found = schema["properties"][name]
        required = name in schema.get("required", ())
        yield _row(
            f"`{name}`",
            _type(each.type, page),
            ", ".join(_rules(found, required)),
            found["description"],
        )


def _type(annotation: Any, page: _Page) -> str:
    content = content_of(annotation)
    origin, arguments = typing.get_origin(content), typing.get_args(content)
    if isinstance(content, type) and issubclass(content, msgspec.Struct):
        return page.refer(content)
    if origin is tuple:
        return f"list of {_type(arguments[0], page)}"
    if origin is dict:
        return f"map of {_type(arguments[1], page)}"
    schema = schema_of(content)
    if schema.get("x-kubernetes-int-or-string"):
        return "number or text"
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return "any object"
    return {"date-time": "time"}.get(schema.get("format", ""), str(schema["type"]))


def _rules(schema: dict[str, Any], required: bool) -> Lines:
    if required:
        yield "**required**"
    if "default" in schema:
        yield f"default `{json.dumps(schema['default'])}`"
    if "enum" in schema:
        yield "one of " + " ".join(f"`{value}`" for value in schema["enum"])
    for low, high, unit in _BOUNDS:
        yield from _bounds(schema.get(low), schema.get(high), unit)
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys:
        yield "by " + ", ".join(f"`{key}`" for key in keys)
    if schema.get("x-kubernetes-list-type") == "set":
        yield "a set"
    if any(rule["rule"] == "self == oldSelf" for rule in _validations(schema)):
        yield "cannot be changed"


_BOUNDS = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " entries"),
)


def _bounds(low: int | None, high: int | None, unit: str) -> Lines:
    if low is not None and high is not None:
        yield f"{low} to {high}{unit}"
    elif low == 1 and unit:
        yield "not empty"
    elif low is not None:
        yield f"at least {low}{unit}"
    elif high is not None:
        yield f"at most {high}{unit}"


def _validations(schema: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = schema.get("x-kubernetes-validations", [])
    return found


def _at_first(status: dict[str, Any]) -> Lines:
    yield "A new object starts with these conditions, all of them since 1970:"
    yield ""
    yield from _head("condition", "status", "reason", "message")
    for each in status["conditions"]:
        yield _row(f"`{each['type']}`", each["status"], f"`{each['reason']}`", each["message"])


def _columns(columns: Iterable[PrinterColumn]) -> Lines:
    yield from _head("column", "shows", "when")
    for each in columns:
        yield _row(each.name, f"`{each.json_path}`", "`-o wide`" if each.priority else "always")


def _conditions(
    title: str, conditions: Iterable[DeclaredCondition], words: api_constants.Vocabulary
) -> Lines:
    for position, condition in enumerate(conditions):
        if position == 0:
            yield from (f"**{title}**", "")
        yield f"`{condition.type}`: {words.conditions[condition.type]}"
        if condition.inherits_from:
            yield f"Further reasons are those of {condition.inherits_from}."
        yield ""
        if any(condition.reasons()):
            acts = ("who acts",) if words.records else ()
            yield from _head("status", "reason", "meaning", *acts)
            for status, reason in condition.reasons():
                actor = (_actor(words.records[reason]),) if words.records else ()
                yield _row(status, f"`{reason}`", words.reasons[reason], *actor)
            yield ""


def _actor(reason: Reason) -> str:
    """Who can act on it; empty where no one has to."""
    if not reason.needs_action:
        return ""
    return f"{reason.actor}, final" if reason.terminal else reason.actor


def _words() -> Lines:
    yield from ("## Labels, annotations, finalizers and gates", "")
    for package, title in _OTHER_WORDS.items():
        yield from (f"### {title}", "")
        yield from _head("what", "word", "meaning")
        for each in api_constants.constants_of(package):
            what = each.name.partition("_")[0].lower()
            if what in ("label", "annotation", "finalizer", "gate", "taint"):
                yield _row(what, f"`{each.value}`", each.meaning)
        yield ""


_OTHER_WORDS = {
    "compute": "On compute's objects",
    "resourcemanager": "On projects",
    "karmada": "On Karmada's objects",
}


def _head(*names: str) -> Lines:
    yield _row(*names)
    yield "|" + "---|" * len(names)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
