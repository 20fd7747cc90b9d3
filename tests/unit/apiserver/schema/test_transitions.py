"""Rules that forbid a change."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.apiserver.schema import compiled
from datum_compute.apiserver.schema.transitions import validate_transitions

KEPT = [{"rule": "self == oldSelf", "message": "is immutable"}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "x-kubernetes-validations": KEPT},
                "size": {
                    "type": "integer",
                    "x-kubernetes-validations": [{"rule": "self  ==  oldSelf"}],
                },
                "ref": {
                    "type": "object",
                    "x-kubernetes-validations": KEPT,
                    "properties": {"kind": {"type": "string"}},
                },
                "free": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self.startsWith('a')"}],
                },
                "many": {
                    "type": "array",
                    "items": {"type": "string", "x-kubernetes-validations": KEPT},
                },
            },
        }
    },
}


def faults(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [str(fault) for fault in validate_transitions(compiled(SCHEMA).rules, old, new)]


@pytest.mark.parametrize(
    ("field", "old", "new", "expected"),
    [
        ("name", "a", "b", 'spec.name: Invalid value: "string": is immutable'),
        ("size", 1, 2, 'spec.size: Invalid value: "integer": failed rule: self == oldSelf'),
        ("ref", {"kind": "A"}, {"kind": "B"}, 'spec.ref: Invalid value: "object": is immutable'),
    ],
)
def test_a_value_that_may_not_change_is_named_with_its_type(
    field: str, old: Any, new: Any, expected: str
) -> None:
    assert faults({"spec": {field: old}}, {"spec": {field: new}}) == [expected]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"spec": {"name": "a"}}, {"spec": {"name": "a"}}),
        ({"spec": {}}, {"spec": {"name": "a"}}),
        ({"spec": {"name": "a"}}, {"spec": {}}),
        ({}, {"spec": {"name": "a"}}),
        ({"spec": {"free": "a"}}, {"spec": {"free": "b"}}),
        ({"spec": {"many": ["a"]}}, {"spec": {"many": ["b"]}}),
    ],
)
def test_equal_or_absent_values_and_other_rules_pass(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert faults(old, new) == []
