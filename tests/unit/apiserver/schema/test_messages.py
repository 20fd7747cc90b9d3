"""Each rule of a schema, broken: the fault, word for word as apiextensions reports it."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.apiserver.schema import compiled


def faults(field: dict[str, Any], value: Any) -> list[str]:
    """What ``spec.x`` is reported for, with this schema and this value."""
    spec = {"type": "object", "properties": {"x": field}}
    schema = compiled({"type": "object", "properties": {"spec": spec}})
    return [str(error) for error in schema.process({"spec": {"x": value}}).errors]


def wrong_type(wanted: str, found: str) -> str:
    return f'spec.x: Invalid value: "{found}": spec.x in body must be of type {wanted}: "{found}"'


STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}
INT_OR_STRING: dict[str, Any] = {"x-kubernetes-int-or-string": True}


def array(items: dict[str, Any], **rules: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **rules}


@pytest.mark.parametrize(
    ("field", "value", "wanted", "found"),
    [
        (INTEGER, "string", "integer", "string"),
        (INTEGER, 1.5, "integer", "number"),
        (INTEGER, True, "integer", "boolean"),
        (NUMBER, "1", "number", "string"),
        (STRING, 1, "string", "integer"),
        (STRING, ["a"], "string", "array"),
        ({"type": "boolean"}, "true", "boolean", "string"),
        ({"type": "boolean"}, 1, "boolean", "integer"),
        ({"type": "object"}, "x", "object", "string"),
        (array(STRING), {"a": 1}, "array", "object"),
        (INT_OR_STRING, True, "integer,string", "boolean"),
        (INT_OR_STRING, 1.5, "integer,string", "number"),
    ],
)
def test_a_value_of_the_wrong_type_is_reported(
    field: dict[str, Any], value: Any, wanted: str, found: str
) -> None:
    assert faults(field, value) == [wrong_type(wanted, found)]


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        (
            {**STRING, "enum": ["red", "blue"]},
            "x",
            'spec.x: Unsupported value: "x": supported values: "red", "blue"',
        ),
        (
            {**INTEGER, "enum": [1, 2]},
            3,
            'spec.x: Unsupported value: 3: supported values: "1", "2"',
        ),
        (
            {**INTEGER, "minimum": 1},
            0,
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            {**NUMBER, "minimum": 1, "exclusiveMinimum": True},
            1,
            "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            {**INTEGER, "maximum": 65535.0},
            70000,
            "spec.x: Invalid value: 70000: spec.x in body should be less than or equal to 65535",
        ),
        (
            {**NUMBER, "maximum": 0.5, "exclusiveMaximum": True},
            0.5,
            "spec.x: Invalid value: 0.5: spec.x in body should be less than 0.5",
        ),
        (
            {**INTEGER, "multipleOf": 5},
            7,
            "spec.x: Invalid value: 7: spec.x in body should be a multiple of 5",
        ),
        (
            {**INTEGER, "format": "int32"},
            2**31,
            "spec.x: Invalid value: 2147483648: "
            "Checked value must be of type integer with format int32 in spec.x",
        ),
        (
            {**STRING, "minLength": 2},
            "é",
            'spec.x: Invalid value: "é": spec.x in body should be at least 2 chars long',
        ),
        (
            {**STRING, "maxLength": 3},
            "abcd",
            "spec.x: Too long: may not be more than 3 bytes",
        ),
        (
            {**STRING, "pattern": "^[a-z]+$"},
            "A",
            "spec.x: Invalid value: \"A\": spec.x in body should match '^[a-z]+$'",
        ),
        (
            {**STRING, "format": "date-time"},
            "yesterday",
            'spec.x: Invalid value: "yesterday": '
            'spec.x in body must be of type date-time: "yesterday"',
        ),
        (
            array(STRING, minItems=1),
            [],
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            array(STRING, maxItems=1),
            ["a", "b"],
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            array(STRING, uniqueItems=True),
            ["a", "a"],
            'spec.x: Invalid value: ["a","a"]: spec.x in body shouldn\'t contain duplicates',
        ),
        (
            {"type": "object", "additionalProperties": STRING, "maxProperties": 1},
            {"a": "1", "b": "2"},
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "object", "additionalProperties": STRING, "minProperties": 1},
            {},
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties",
        ),
        (
            array(STRING, **{"x-kubernetes-list-type": "set"}),
            ["a", "b", "a"],
            'spec.x[2]: Duplicate value: "a"',
        ),
        (array(STRING), ["a", None], wrong_type("string", "null").replace("spec.x", "spec.x[1]")),
        (
            {"type": "object", "additionalProperties": INTEGER},
            {"a.b": "1"},
            wrong_type("integer", "string").replace("spec.x", "spec.x.a.b"),
        ),
    ],
)
def test_a_broken_rule_is_reported(field: dict[str, Any], value: Any, fault: str) -> None:
    assert faults(field, value) == [fault]


@pytest.mark.parametrize(
    ("step", "value", "accepted"),
    [(1e-300, 1e10, False), (0.1, 10**400, False), (0.1, 0.3, True), (1e-300, 0, True)],
)
def test_a_multiple_of_an_extreme_step_is_decided(step: float, value: Any, accepted: bool) -> None:
    found = faults({"type": "number", "multipleOf": step}, value)

    assert (found == []) is accepted


def test_a_missing_required_field_is_named() -> None:
    item = {"type": "object", "required": ["name", "port"], "properties": {"name": STRING}}

    assert faults(array(item), [{}]) == [
        "spec.x[0].name: Required value",
        "spec.x[0].port: Required value",
    ]


def test_items_of_a_map_like_list_differ_in_their_keys() -> None:
    item = {
        "type": "object",
        "required": ["port"],
        "properties": {"port": INTEGER, "protocol": {**STRING, "default": "TCP"}},
    }
    ports = array(
        item,
        **{
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
        },
    )

    # The default completes the key before it is compared.
    found = faults(ports, [{"port": 80}, {"port": 80, "protocol": "UDP"}, {"port": 80}])

    assert found == ['spec.x[2]: Duplicate value: {"port":80,"protocol":"TCP"}']


@pytest.mark.parametrize(
    ("rules", "value", "expected"),
    [
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [
                'spec.x: Invalid value: "": "spec.x" must validate one and only one schema '
                "(oneOf). Found none valid",
                "spec.x.a: Required value",
            ],
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 2},
            [
                'spec.x: Invalid value: "": "spec.x" must validate one and only one schema '
                "(oneOf). Found 2 valid alternatives"
            ],
        ),
        (
            {"anyOf": [{"properties": {"a": {"minimum": 5}}}, {"required": ["b"]}]},
            {"a": 1},
            [
                'spec.x: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
                "spec.x.a: Invalid value: 1: spec.x.a in body should be greater than or equal to 5",
            ],
        ),
        (
            {"allOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1},
            ["spec.x.b: Required value"],
        ),
        (
            {"not": {"required": ["a"]}},
            {"a": 1},
            ['spec.x: Invalid value: "": "spec.x" must not validate the schema (not)'],
        ),
    ],
)
def test_errors_of_composites_name_the_unmet_schema(
    rules: dict[str, Any], value: Any, expected: list[str]
) -> None:
    field = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, **rules}

    assert faults(field, value) == expected


def test_all_errors_are_reported_at_once() -> None:
    item = {
        "type": "object",
        "required": ["image"],
        "properties": {"image": STRING, "port": {**INTEGER, "minimum": 1}},
    }

    assert faults(array(item), [{"port": 0}, {"image": 7}]) == [
        "spec.x[0].port: Invalid value: 0: "
        "spec.x[0].port in body should be greater than or equal to 1",
        "spec.x[0].image: Required value",
        'spec.x[1].image: Invalid value: "integer": '
        'spec.x[1].image in body must be of type string: "integer"',
    ]


def test_an_embedded_resource_must_have_a_type() -> None:
    field = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }

    assert faults(field, {"metadata": {"name": "a"}}) == [
        "spec.x.apiVersion: Required value: must not be empty",
        "spec.x.kind: Required value: must not be empty",
    ]
    assert faults(field, {"apiVersion": "v1", "kind": "Pod"}) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (INTEGER, 1.0),
        (NUMBER, 1),
        (INT_OR_STRING, "50%"),
        (INT_OR_STRING, 8080),
        ({**INT_OR_STRING, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "a"),
        ({**INT_OR_STRING, "pattern": "^[0-9]+%$"}, 5),
        ({**STRING, "nullable": True, "enum": ["a"]}, None),
        ({**STRING, "format": "not-a-known-format"}, "anything"),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"a": [1, {"b": None}]}),
        ({"x-kubernetes-preserve-unknown-fields": True}, "text"),
        ({**INTEGER, "minimum": 1, "maximum": 1}, 1),
        ({**STRING, "maxLength": 1}, "é"),
        (array(INTEGER, **{"x-kubernetes-list-type": "set"}), [1, 0]),
    ],
)
def test_values_that_the_real_server_accepts_are_accepted(
    field: dict[str, Any], value: Any
) -> None:
    assert faults(field, value) == []


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-02-28T23:59:59.123+01:00", "2026-02-29T00:00:00Z"),
        ("date-time", "2024-02-29t00:00:00z", "2026-01-01 00:00:00"),
        ("date-time", "2026-01-31T00:00:00Z", "2026-01-00T00:00:00Z"),
        ("date", "2026-12-31", "2026-13-01"),
        ("byte", "aGVsbG8=", "a$"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "2001:db8::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "00:1b:63:84:45:e6", "00:1b:63"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
        ("hostname", "a.example.com", "-a.example"),
        ("email", "a@example.com", "example.com"),
        ("uri", "https://example.com/a", "no scheme"),
        ("duration", "1h30m", "soon"),
    ],
)
def test_an_invalid_format_is_reported(name: str, good: str, bad: str) -> None:
    field = {**STRING, "format": name}

    assert faults(field, good) == []
    assert faults(field, bad) == [
        f'spec.x: Invalid value: "{bad}": spec.x in body must be of type {name}: "{bad}"'
    ]
