"""What a walk does to an object: unknown fields go, nulls go, defaults come."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from datum_compute.apiserver.schema import compiled

STRING = {"type": "string"}
LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def listed(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapped(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def processed(schema: dict[str, Any], value: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    result = copy.deepcopy(value)
    outcome = compiled(schema).process(result)
    assert outcome.errors == []
    return result, outcome.unknown


@pytest.mark.parametrize(
    ("schema", "given", "kept", "unknown"),
    [
        (obj(spec=obj(a=STRING)), {"spec": {"a": "1", "x": 2}}, {"spec": {"a": "1"}}, ["spec.x"]),
        (obj(spec=obj()), {"extra": {"deep": 1}, "spec": {}}, {"spec": {}}, ["extra"]),
        (
            obj(spec=obj(list=listed(obj(a=STRING)))),
            {"spec": {"list": [{"a": "1", "y": 1}, {"z": 1}]}},
            {"spec": {"list": [{"a": "1"}, {}]}},
            ["spec.list[0].y", "spec.list[1].z"],
        ),
        (
            obj(spec=obj(map=mapped(obj(a=STRING)))),
            {"spec": {"map": {"k": {"y": 1}}}},
            {"spec": {"map": {"k": {}}}},
            ["spec.map.k.y"],
        ),
        (
            obj(spec=obj(nested=listed(listed(obj())))),
            {"spec": {"nested": [[{}], [{}, {"q": 1}]]}},
            {"spec": {"nested": [[{}], [{}, {}]]}},
            ["spec.nested[1][1].q"],
        ),
        (obj(spec=LOOSE), {"spec": {"any": {"thing": [1]}}}, {"spec": {"any": {"thing": [1]}}}, []),
        (
            obj(spec={**LOOSE, "properties": {"known": obj(a=STRING)}}),
            {"spec": {"any": 1, "known": {"a": "1", "x": 1}}},
            {"spec": {"any": 1, "known": {"a": "1"}}},
            ["spec.known.x"],
        ),
    ],
)
def test_unknown_fields_are_dropped_and_named(
    schema: dict[str, Any], given: dict[str, Any], kept: dict[str, Any], unknown: list[str]
) -> None:
    assert processed(schema, given) == (kept, unknown)


def test_metadata_of_an_object_is_not_pruned() -> None:
    given = {
        "apiVersion": "g/v",
        "kind": "K",
        "metadata": {"name": "a", "labels": {"x": "y"}, "invented": None},
    }
    declared = obj(apiVersion=STRING, kind=STRING, metadata={"type": "object"})

    for schema in (obj(), declared):
        assert processed(schema, given) == (given, [])


def test_metadata_of_an_embedded_resource_is_not_pruned() -> None:
    embedded = {**obj(spec=obj(a=STRING)), "x-kubernetes-embedded-resource": True}
    given = {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": 1}}

    kept, unknown = processed(obj(pod=embedded), given)

    assert kept == {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}
    assert unknown == ["pod.x"]


@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        (obj(n={"type": "integer", "default": 1}), {}, {"n": 1}),
        (obj(n={"type": "integer", "default": 1}), {"n": 0}, {"n": 0}),
        (obj(on={"type": "boolean", "default": False}), {}, {"on": False}),
        (obj(spec={**obj(a={**STRING, "default": "x"}), "default": {}}), {}, {"spec": {"a": "x"}}),
        (obj(spec=obj(a={**STRING, "default": "x"})), {}, {}),
        (
            obj(list=listed(obj(a={**STRING, "default": "x"}))),
            {"list": [{}, {"a": "y"}]},
            {"list": [{"a": "x"}, {"a": "y"}]},
        ),
        (
            obj(map=mapped(obj(a={**STRING, "default": "x"}))),
            {"map": {"k": {}}},
            {"map": {"k": {"a": "x"}}},
        ),
        (
            obj(list={**listed(STRING), "default": ["a"]}),
            {},
            {"list": ["a"]},
        ),
    ],
)
def test_defaults_are_filled_in(
    schema: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert processed(schema, given) == (expected, [])


@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        (obj(a=STRING), {"a": None}, {}),
        (obj(a={**STRING, "nullable": True}), {"a": None}, {"a": None}),
        (obj(a={**STRING, "default": "x"}), {"a": None}, {"a": "x"}),
        (obj(a={**STRING, "default": "x", "nullable": True}), {"a": None}, {"a": None}),
        (obj(m=mapped(STRING)), {"m": {"a": None, "b": "1"}}, {"m": {"b": "1"}}),
        (
            obj(m=mapped({**obj(a={**STRING, "default": "x"}), "default": {}})),
            {"m": {"k": None}},
            {"m": {"k": {"a": "x"}}},
        ),
        (obj(list=listed({**STRING, "default": "x"})), {"list": [None]}, {"list": ["x"]}),
        (obj(loose=LOOSE), {"loose": {"a": None}}, {"loose": {"a": None}}),
    ],
)
def test_a_null_means_not_set_unless_it_may_be_null(
    schema: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert processed(schema, given) == (expected, [])


def test_a_required_field_given_as_null_is_missing() -> None:
    schema = compiled({**obj(a=STRING), "required": ["a"]})

    errors = schema.process({"a": None}).errors

    assert [str(error) for error in errors] == ["a: Required value"]


def test_a_default_satisfies_required() -> None:
    assert processed({**obj(a={**STRING, "default": "x"}), "required": ["a"]}, {})[0] == {"a": "x"}


def test_defaults_are_not_shared_between_objects() -> None:
    schema = compiled(obj(list={**listed(STRING), "default": []}))
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}

    schema.process(first)
    first["list"].append("mine")
    schema.process(second)

    assert second == {"list": []}


def test_composites_validate_and_never_change() -> None:
    parts = [{"properties": {"a": {"minimum": 1}}}]
    given = {"spec": {"a": 1, "b": 2}}

    kept, unknown = processed(
        obj(spec={**obj(a={"type": "integer"}, b={"type": "integer"}), "allOf": parts}), given
    )

    assert kept == given
    assert unknown == []


def test_running_twice_equals_running_once() -> None:
    schema = obj(spec={**obj(a={**STRING, "default": "x"}, m=mapped(obj())), "default": {}})
    once, _ = processed(schema, {"spec": {"m": {"k": {"gone": 1}}, "gone": 1}})

    assert processed(schema, once) == (once, [])


def test_a_schema_may_restrict_the_name() -> None:
    name = {**STRING, "maxLength": 3}
    schema = compiled(obj(metadata=obj(name=name)))

    outcome = schema.process({"metadata": {"name": "long", "uid": "u"}})

    assert [str(error) for error in outcome.errors] == [
        "metadata.name: Too long: may not be more than 3 bytes"
    ]
    assert outcome.unknown == []


def test_schemas_are_shared_by_content() -> None:
    one = compiled({"type": "object", "properties": {"a": STRING}})
    same = compiled({"properties": {"a": dict(STRING)}, "type": "object"})

    assert one is same
    assert one is not compiled(obj(b=STRING))
    assert one.digest != compiled(obj(b=STRING)).digest


def test_a_schema_does_not_follow_later_changes_of_its_source() -> None:
    source = obj(a=STRING)
    schema = compiled(source)

    source["properties"]["b"] = STRING

    assert schema.process({"b": "1"}).unknown == ["b"]


def test_deeply_nested_defaults_are_compiled_in_reasonable_time() -> None:
    """Completing defaults level by level must not double the work at each level."""
    schema: dict[str, Any] = {"type": "string", "default": "x"}
    expected: Any = "x"
    for _ in range(25):
        schema = {**obj(a=schema), "default": {}}
        expected = {"a": expected}

    assert processed(obj(spec=schema), {}) == ({"spec": expected}, [])
