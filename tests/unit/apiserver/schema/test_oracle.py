"""The compiled walk against an independent validator, on generated schemas and objects.

The oracle takes JSON Schema, which has neither pruning nor defaults nor Kubernetes'
extensions: it is given the object as the walk left it, and the schema translated.
"""

from __future__ import annotations

import copy
from typing import Any

import jsonschema_rs
from hypothesis import event, given, settings
from hypothesis import strategies as st

from datum_compute.api.fields import FieldPath
from datum_compute.apiserver.schema import compiled
from datum_compute.apiserver.schema.structural import validate_root

Json = Any  # whatever JSON holds

NAMES = ("a", "b", "c")
PATTERNS = ("^[a-z]+$", "b", "^a|c$", "^$", r"^\d{2}$")

texts = st.text("abc1é", max_size=4)
numbers = st.one_of(st.integers(-3, 3), st.sampled_from([-1.5, 0.5, 1.0, 2.0]))
scalars = st.one_of(st.none(), st.booleans(), texts, numbers)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def string_schemas(draw: st.DrawFn) -> dict[str, Json]:
    rules = st.fixed_dictionaries(
        {},
        optional={
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 3),
            "pattern": st.sampled_from(PATTERNS),
            "enum": st.lists(texts, min_size=1, max_size=3, unique=True),
        },
    )
    return {"type": "string", **draw(rules)}


@st.composite
def number_schemas(draw: st.DrawFn) -> dict[str, Json]:
    schema: dict[str, Json] = {"type": draw(st.sampled_from(["integer", "number"]))}
    if draw(st.booleans()):
        schema["minimum"] = draw(st.integers(-2, 2))
        schema["exclusiveMinimum"] = draw(st.booleans())
    if draw(st.booleans()):
        schema["maximum"] = draw(st.integers(-2, 2))
        schema["exclusiveMaximum"] = draw(st.booleans())
    if draw(st.integers(0, 4)) == 0:
        schema["enum"] = draw(st.lists(st.integers(-2, 2), min_size=1, max_size=3, unique=True))
    return schema


@st.composite
def leaf_schemas(draw: st.DrawFn) -> dict[str, Json]:
    other = st.sampled_from([{"type": "boolean"}, {"x-kubernetes-int-or-string": True}])
    schema = dict(draw(st.one_of(string_schemas(), number_schemas(), other)))
    if draw(st.integers(0, 4)) == 0:
        schema["nullable"] = True
        schema.pop("enum", None)  # dialects differ on whether null must then be listed
    return schema


@st.composite
def array_schemas(draw: st.DrawFn, items: st.SearchStrategy[dict[str, Json]]) -> dict[str, Json]:
    schema: dict[str, Json] = {"type": "array", "items": draw(items)}
    schema.update(
        draw(
            st.fixed_dictionaries(
                {}, optional={"minItems": st.integers(0, 2), "maxItems": st.integers(0, 3)}
            )
        )
    )
    if schema["items"].get("type") in ("string", "integer") and draw(st.booleans()):
        schema["x-kubernetes-list-type"] = "set"
        schema["items"].pop("nullable", None)
    return schema


@st.composite
def object_schemas(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Json]]) -> dict[str, Json]:
    if draw(st.integers(0, 3)) == 0:
        size = st.fixed_dictionaries(
            {}, optional={"maxProperties": st.integers(0, 3), "minProperties": st.integers(0, 2)}
        )
        return {"type": "object", "additionalProperties": draw(inner), **draw(size)}
    properties = draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=3))
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    known = sorted(properties)
    if draw(st.booleans()) and known:
        schema["required"] = draw(st.lists(st.sampled_from(known), min_size=1, unique=True))
    if known and draw(st.integers(0, 2)) == 0:
        composite = draw(st.sampled_from(["allOf", "anyOf", "oneOf"]))
        part = value_rules(known)
        schema[composite] = draw(st.lists(part, min_size=1, max_size=3))
    if known and draw(st.integers(0, 5)) == 0:
        schema["not"] = draw(value_rules(known))
    if draw(st.integers(0, 4)) == 0:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema


def value_rules(known: list[str]) -> st.SearchStrategy[dict[str, Json]]:
    rule = st.fixed_dictionaries(
        {}, optional={"minimum": st.integers(-1, 2), "maxLength": st.integers(0, 2)}
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "required": st.lists(st.sampled_from(known), min_size=1, unique=True),
            "properties": st.dictionaries(st.sampled_from(known), rule, max_size=2),
        },
    )


schemas = st.recursive(
    leaf_schemas(),
    lambda inner: st.one_of(array_schemas(inner), object_schemas(inner)),
    max_leaves=8,
)


@st.composite
def values_for(draw: st.DrawFn, schema: dict[str, Json]) -> Json:
    """Mostly of the right shape, sometimes anything at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(anything)
    kind = schema.get("type")
    if kind == "object":
        known = schema.get("properties", {})
        value = {name: draw(values_for(child)) for name, child in known.items() if draw(_LIKELY)}
        if "additionalProperties" in schema:
            for name in draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True)):
                value[name] = draw(values_for(schema["additionalProperties"]))
        if draw(st.integers(0, 4)) == 0:
            value["unknown"] = draw(anything)
        return value
    if kind == "array":
        return draw(st.lists(values_for(schema["items"]), max_size=4))
    if "enum" in schema and draw(st.booleans()):
        return draw(st.sampled_from(schema["enum"]))
    if kind == "string":
        return draw(texts)
    return draw(st.booleans() if kind == "boolean" else numbers)


_LIKELY = st.sampled_from([True, True, True, False])


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Json], Json]:
    schema = draw(st.one_of(schemas, object_schemas(schemas)))
    return schema, draw(values_for(schema))


def translated(schema: Json) -> Json:
    """The schema in plain JSON Schema."""
    if isinstance(schema, list):
        return [translated(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: translated(value) for name, value in schema.items() if not name.startswith("x-")}
    for bound in ("Minimum", "Maximum"):
        if plain.pop(f"exclusive{bound}", False) is True:
            plain[f"exclusive{bound}"] = plain.pop(bound.lower())
    if schema.get("x-kubernetes-int-or-string"):
        plain["type"] = ["integer", "string"]
    if schema.get("x-kubernetes-list-type") == "set":
        plain["uniqueItems"] = True
    if plain.pop("nullable", False) is True:
        types = plain["type"]
        plain["type"] = [*types, "null"] if isinstance(types, list) else [types, "null"]
    return plain


@settings(max_examples=200, deadline=None)
@given(cases())
def test_the_walk_agrees_with_an_independent_validator(case: tuple[dict[str, Json], Json]) -> None:
    field, value = case
    source = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"x": field}}},
    }
    assert validate_root(source, FieldPath()) == []
    obj = {"spec": {"x": copy.deepcopy(value)}}

    outcome = compiled(source).process(obj)

    oracle = jsonschema_rs.Draft202012Validator(translated(source))
    event("valid" if not outcome.errors else "invalid")
    assert (not outcome.errors) == oracle.is_valid(obj), (obj, outcome.errors)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_processing_twice_changes_nothing(case: tuple[dict[str, Json], Json]) -> None:
    field, value = case
    schema = compiled({"type": "object", "properties": {"x": field}})
    obj = {"x": copy.deepcopy(value)}
    first = schema.process(obj)
    after_once = copy.deepcopy(obj)

    second = schema.process(obj)

    assert obj == after_once
    assert second.unknown == []
    assert second.errors == first.errors
