"""Texts that have passed a check are remembered: for that check alone, and not without end."""

from __future__ import annotations

import pytest

from datum_compute.apiserver.codec import json_equal
from datum_compute.apiserver.schema import checks, compiled


def faults(pattern: str, text: str) -> int:
    properties = {"name": {"type": "string", "pattern": pattern}}
    schema = compiled({"type": "object", "properties": properties})
    return len(schema.process({"name": text}).errors)


def test_a_text_that_passes_one_check_does_not_pass_another() -> None:
    assert [faults("^[a-z]+$", "abc"), faults("^[0-9]+$", "abc")] == [0, 1]
    assert [faults("^[a-z]+$", "abc"), faults("^[0-9]+$", "abc")] == [0, 1]


def test_neither_long_texts_nor_endless_ones_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "_REMEMBERED_TEXTS", 10)
    checks._passed.clear()

    assert not any(faults("^x+$", "x" * length) for length in range(1, 200))

    assert 0 < len(checks._passed) <= 10
    assert max(len(text) for _, text in checks._passed) <= checks._REMEMBERED_LENGTH


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"a": [1, {"b": 2}], "c": "x"}, {"c": "x", "a": [1.0, {"b": 2}]}, True),
        ({"a": [True]}, {"a": [1]}, False),
        ([0], [False], False),
        (True, 1, False),
        (1, 1.0, True),
        ({"a": None}, {}, False),
    ],
)
def test_values_are_equal_as_json_has_it(one: object, other: object, expected: bool) -> None:
    assert json_equal(one, other) is expected
    assert json_equal(other, one) is expected
