"""From a structural schema to closures.

Each schema node becomes a :class:`Node`: the exact Python type a value should have, a walk
for values of that type, and ``admit`` for all others. The common case, a field of the
right type without further rules, thereby costs its parent one type comparison and no
call. ``admit`` knows the rest: null, whole floats for integers, and the type error.

A node is compiled in one of two modes. In *keeping* mode (the structural part) the walk
prunes, defaults and drops nulls. In *validating* mode (below ``oneOf``, ``anyOf``, ``allOf``
and ``not``, and for ``metadata``) it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from datum_compute.api import fields
from datum_compute.apiserver.schema import checks, composites, containers
from datum_compute.apiserver.schema.containers import DROP, KEEP, Admit, Node
from datum_compute.apiserver.schema.outcome import (
    PathKeys,
    SchemaOutcome,
    SchemaPath,
    Walk,
)

JsonSchema = Mapping[str, Any]
Make = Callable[[], Any]
"""Gives a fresh copy of a default."""


class _Compiler:
    """What one compilation shares: the mode, and the defaults found so far."""

    def __init__(
        self,
        *,
        keeping: bool,
        defaults: dict[int, Make | None] | None = None,
    ) -> None:
        self.keeping = keeping
        self._defaults = {} if defaults is None else defaults
        """By id of the schema: completing a default compiles all below it, so only once."""

    def node(self, schema: JsonSchema, place: SchemaPath) -> Node:
        if schema.get("x-kubernetes-int-or-string"):
            return self._int_or_string(schema, place)
        build = {
            "object": self._object_node,
            "array": self._array_node,
            "string": self._string_node,
            "integer": self._integer_node,
            "number": self._number_node,
            "boolean": self._boolean_node,
        }.get(schema.get("type", ""), self._any_node)
        return build(schema, place)

    # One builder per type.

    def _object_node(self, schema: JsonSchema, place: SchemaPath) -> Node:
        walk = self._object_walk(schema, place)
        return self._typed(schema, place, dict, "object", walk)

    def _array_node(self, schema: JsonSchema, place: SchemaPath) -> Node:
        walk = self._array_walk(schema, place)
        return self._typed(schema, place, list, "array", walk)

    def _string_node(self, schema: JsonSchema, place: SchemaPath) -> Node:
        found = checks.string_checks(schema, place) + self._composites(schema, place)
        return self._typed(schema, place, str, "string", checks.combine(found))

    def _integer_node(self, schema: JsonSchema, place: SchemaPath) -> Node:
        found = checks.number_checks(schema, place) + self._composites(schema, place)
        return self._typed(
            schema, place, int, "integer", checks.combine(found), also=_is_whole_float
        )

    def _number_node(self, schema: JsonSchema, place: SchemaPath) -> Node:
        found = checks.number_checks(schema, place) + self._composites(schema, place)
        return self._typed(schema, place, float, "number", checks.combine(found), also=_is_int)

    def _boolean_node(self, schema: JsonSchema, place: SchemaPath) -> Node:
        found = checks.enum_checks(schema, place) + self._composites(schema, place)
        return self._typed(schema, place, bool, "boolean", checks.combine(found))

    def _int_or_string(self, schema: JsonSchema, place: SchemaPath) -> Node:
        # The customary anyOf of the two types only repeats the extension.
        rest = {key: value for key, value in schema.items() if not _marks_int_or_string(key, value)}
        parts = self._composites(rest, place)
        by_type: dict[type, Walk | None] = {
            str: checks.combine(checks.string_checks(rest, place) + parts),
            int: checks.combine(checks.number_checks(rest, place) + parts),
        }

        def judge(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
            kind = int if _is_whole_float(value) else type(value)
            if kind not in by_type:
                checks.add_type_error(place, "integer,string", value, loc, out)
            elif walk := by_type[kind]:
                walk(value, loc, out)

        return Node(None, None, self._admit(schema, judge, typed=True))

    def _any_node(self, schema: JsonSchema, place: SchemaPath) -> Node:
        """No type: each rule applies to values of its type."""
        parts = self._composites(schema, place)
        enum = checks.enum_checks(schema, place)
        number = checks.combine(checks.number_checks(schema, place) + parts)
        by_type: dict[type, Walk | None] = {
            dict: self._object_walk(schema, place),
            list: self._array_walk(schema, place),
            str: checks.combine(checks.string_checks(schema, place) + parts),
            int: number,
            float: number,
            bool: checks.combine(enum + parts),
            type(None): checks.combine(enum + parts),
        }

        def judge(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
            if walk := by_type[type(value)]:
                walk(value, loc, out)

        return Node(None, None, self._admit(schema, judge, typed=False))

    def _typed(
        self,
        schema: JsonSchema,
        place: SchemaPath,
        expected: type,
        name: str,
        walk: Walk | None,
        *,
        also: Callable[[Any], bool] | None = None,
    ) -> Node:
        def judge(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
            if type(value) is expected or (also is not None and also(value)):
                if walk is not None:
                    walk(value, loc, out)
            else:
                checks.add_type_error(place, name, value, loc, out)

        return Node(expected, walk, self._admit(schema, judge, typed=True))

    def _admit(self, schema: JsonSchema, judge: Walk, *, typed: bool) -> Admit:
        nullable = bool(schema.get("nullable"))
        default = self._default(schema) if self.keeping else None
        # In validating mode an untyped schema allows null.
        drops = self.keeping and not nullable
        null_passes = nullable and typed

        def admit(value: Any, loc: PathKeys, out: SchemaOutcome) -> Any:
            if value is None:
                if null_passes:
                    return KEEP
                if drops:
                    return DROP if default is None else default()
            judge(value, loc, out)
            return KEEP

        return admit

    # Containers.

    def _object_walk(self, schema: JsonSchema, place: SchemaPath) -> Walk | None:
        after = [
            *checks.size_checks(schema, place),
            *checks.enum_checks(schema, place),
            *self._composites(schema, place),
        ]
        if schema.get("x-kubernetes-embedded-resource") and place != SchemaPath():
            after.append(_embedded_check(place))
        required = tuple(schema.get("required") or ())
        present = [containers.required_check(place, required)] if required else []
        additional = schema.get("additionalProperties")
        if additional:
            entry = self.node({} if additional is True else additional, place.entry())
            return checks.combine([containers.map_walk(entry), *present, *after])
        nodes, defaults = self._properties(schema, place)
        prunes = self.keeping and not schema.get("x-kubernetes-preserve-unknown-fields")
        if not nodes and not prunes:
            return checks.combine([*present, *after])
        return containers.fields_walk(
            nodes, defaults, place, required, checks.combine(after), prunes=prunes
        )

    def _properties(
        self, schema: JsonSchema, place: SchemaPath
    ) -> tuple[dict[str, Node], list[tuple[str, Make]]]:
        properties = schema.get("properties", {})
        nodes = {
            name: self.node(child, place.child(name))
            for name, child in properties.items()
            if self.keeping or child
        }
        if self.keeping and place == SchemaPath():
            for name, node in nodes.items():
                nodes[name] = containers.skip_validated(name, node, is_root=True)
        elif self.keeping and place.is_of_root:
            for name, node in nodes.items():
                if node.expected in (dict, list):
                    nodes[name] = containers.skip_validated(name, node, is_root=False)
        if schema.get("x-kubernetes-embedded-resource"):
            for name, node in _ENVELOPE.items():
                nodes.setdefault(name, node)
        defaults: list[tuple[str, Make]] = []
        if self.keeping:
            for name, child in properties.items():
                if make := self._default(child):
                    defaults.append((name, make))
        return nodes, defaults

    def _array_walk(self, schema: JsonSchema, place: SchemaPath) -> Walk | None:
        found = checks.size_checks(schema, place)
        if items := schema.get("items"):
            entry = place.entry()
            found.append(containers.items_walk(self.node(items, entry), entry))
        # After the items, whose defaults may be the keys of a map-like list.
        found += checks.uniqueness_checks(schema, place)
        found += checks.enum_checks(schema, place)
        found += self._composites(schema, place)
        return checks.combine(found)

    def _default(self, schema: JsonSchema) -> Make | None:
        if id(schema) not in self._defaults:
            self._defaults[id(schema)] = self._default_maker(schema)
        return self._defaults[id(schema)]

    def _default_maker(self, schema: JsonSchema) -> Make | None:
        """Completes the default by the defaults nested in it, so that a walk which puts it
        in has nothing more to do below."""
        default = schema.get("default")
        if default is None:  # a default of null is no default, as upstream
            return None
        if not isinstance(default, dict | list):
            return lambda: default
        value = fresh_copy(default)
        bare = {key: rule for key, rule in schema.items() if key != "default"}
        below = _Compiler(keeping=True, defaults=self._defaults)
        as_walk(below.node(bare, SchemaPath()))(value, (), SchemaOutcome())
        self._defaults.pop(id(bare), None)  # the id of a dict that will be gone
        if not value:
            return type(value)
        encoded = msgspec.json.encode(value)
        return lambda: msgspec.json.decode(encoded)

    # allOf, anyOf, oneOf, not.

    def _composites(self, schema: JsonSchema, place: SchemaPath) -> list[Walk]:
        judging = _Compiler(keeping=False)
        found: list[Walk] = []
        for part in schema.get("allOf", ()):
            found.append(judging._judge(part, place))
        if parts := schema.get("anyOf"):
            found.append(composites.any_of(place, [judging._judge(part, place) for part in parts]))
        if parts := schema.get("oneOf"):
            found.append(composites.one_of(place, [judging._judge(part, place) for part in parts]))
        if "not" in schema:
            found.append(composites.none_of(place, judging._judge(schema["not"], place)))
        return found

    def _judge(self, schema: JsonSchema, place: SchemaPath) -> Walk:
        return as_walk(self.node(schema, place))


def compile_root(schema: JsonSchema) -> Walk:
    """The walk of a whole object."""
    properties = dict(schema.get("properties", {}))
    metadata = properties.pop("metadata", {})
    for name in ("apiVersion", "kind"):
        properties.pop(name, None)
    # An embedded resource is just this: an object whose envelope is not the schema's.
    root = {**schema, "type": "object", "properties": properties}
    root["x-kubernetes-embedded-resource"] = True
    compiler = _Compiler(keeping=True)
    walk = as_walk(compiler.node(root, SchemaPath()))
    if "properties" not in metadata:
        return walk
    # A schema may restrict metadata.name; it may not prune or default metadata.
    judge = _Compiler(keeping=False)._judge(metadata, SchemaPath().child("metadata"))

    def walk_with_metadata(obj: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        walk(obj, loc, out)
        judge(obj.get("metadata"), loc, out)

    return walk_with_metadata


def compile_node(schema: JsonSchema, place: SchemaPath) -> Walk:
    """The walk of a value at some place below the root."""
    return as_walk(_Compiler(keeping=True).node(schema, place))


def as_walk(node: Node) -> Walk:
    """The node for a value of any type, its action unused."""
    expected, walk, admit = node

    def judge(value: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        if type(value) is not expected:
            admit(value, loc, out)
        elif walk is not None:
            walk(value, loc, out)

    return judge


def _embedded_check(place: SchemaPath) -> Walk:
    def check(obj: Any, loc: PathKeys, out: SchemaOutcome) -> None:
        for name in ("apiVersion", "kind"):
            if not obj.get(name):
                path = place.child(name).at(loc)
                out.add(fields.required(path, "must not be empty"))

    return check


def fresh_copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: fresh_copy(one) for key, one in value.items()}
    if isinstance(value, list):
        return [fresh_copy(one) for one in value]
    return value


def _is_whole_float(value: Any) -> bool:
    return type(value) is float and value.is_integer()


def _is_int(value: Any) -> bool:
    return type(value) is int


def _marks_int_or_string(key: str, value: Any) -> bool:
    return key == "anyOf" and value == [{"type": "integer"}, {"type": "string"}]


def _keep(value: Any, loc: PathKeys, out: SchemaOutcome) -> Any:
    return KEEP


_ENVELOPE = {
    "apiVersion": Node(str, None, _keep),
    "kind": Node(str, None, _keep),
    "metadata": Node(dict, None, _keep),
}
