"""A copy is current when it holds everything its source does."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.runtime.writes.spec_copies import is_subset


@pytest.mark.parametrize(
    ("source", "target", "subset"),
    [
        ({}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {}, False),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": "default"}]}, True),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": {}}, {}, True),
        ({"a": []}, {}, True),
        ({"a": None}, {}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": {"b": 1}}, {"a": [1]}, False),
        ({"a": {"b": None}}, {"a": None}, False),
        ({"a": {}}, {"a": 0}, False),
        ({"a": [None]}, {"a": None}, False),
        ({"a": []}, {"a": [1]}, False),
    ],
)
def test_spec_subset(source: Any, target: Any, subset: bool) -> None:
    assert is_subset(source, target) is subset
