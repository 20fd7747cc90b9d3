"""Patches of plain values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.apiserver.codec import json_equal
from datum_compute.apiserver.errors import ApiError
from datum_compute.apiserver.objects.patches import (
    json_patch,
    merge_patch,
    strategic_patch,
)

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/"), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_follow_the_examples_of_the_rfc(
    target: Any, patch: Any, expected: Any
) -> None:
    assert merge_patch(target, patch) == expected


@given(values, values)
def test_a_merge_patch_does_not_change_its_target_and_is_idempotent(
    target: Any, patch: Any
) -> None:
    before = repr(target)

    once = merge_patch(target, patch)

    assert repr(target) == before
    assert json_equal(merge_patch(once, patch), once)


@pytest.mark.parametrize(
    ("target", "operation", "expected"),
    [
        ({"a": 1}, {"op": "add", "path": "/b", "value": 2}, {"a": 1, "b": 2}),
        ({"a": [1, 3]}, {"op": "add", "path": "/a/1", "value": 2}, {"a": [1, 2, 3]}),
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": [1, 2]}, {"op": "remove", "path": "/a/-1"}, {"a": [1]}),
        ({"a": [1, 2]}, {"op": "add", "path": "/a/-1", "value": 3}, {"a": [1, 2, 3]}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/a/01", "value": 3}, {"a": [1, 3]}),
        ({"a": 1}, {"op": "add", "path": "/b"}, {"a": 1, "b": None}),
        ({"a": 1}, {"op": "copy", "from": "/b", "path": "/c"}, {"a": 1, "c": None}),
        ({"a": 1}, {"op": "remove", "path": "/a"}, {}),
        ({"a": [1, 2]}, {"op": "remove", "path": "/a/0"}, {"a": [2]}),
        ({"a": 1}, {"op": "replace", "path": "/a", "value": None}, {"a": None}),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a/b", "path": "/c"}, {"a": {}, "c": 1}),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"a/b": 1, "c~d": 2}, {"op": "remove", "path": "/a~1b"}, {"c~d": 2}),
        ({"a/b": 1, "c~d": 2}, {"op": "remove", "path": "/c~0d"}, {"a/b": 1}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1.0}, {"a": 1}),
        ({"": 1}, {"op": "test", "path": "/", "value": 1}, {"": 1}),
    ],
)
def test_json_patch_operations(target: Any, operation: Any, expected: Any) -> None:
    assert json_patch(target, [operation]) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "add", "path": "/a/5", "value": 1},
        {"op": "add", "path": "/a/-3", "value": 1},
        {"op": "add", "path": "/a/1e0", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "remove", "path": "/b"},
        {"op": "remove", "path": "/a/-"},
        {"op": "remove", "path": ""},
        {"op": "test", "path": "/a", "value": [True]},
        {"op": "move", "from": "/a", "path": "/a/0"},
        {"op": "copy", "from": "/b/d", "path": "/c"},
        {"op": "add", "path": "/s/x", "value": 1},
        {"op": "fold", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_inapplicable_operations_are_refused(operation: Any) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": [1], "s": "text"}, [operation])

    assert caught.value.code == 422


@given(values, st.lists(st.sampled_from(["a", "b", "0", "1", "-", "~1"]), max_size=3), values)
def test_a_json_patch_returns_or_refuses_and_does_not_change_its_target(
    target: Any, path: list[str], value: Any
) -> None:
    before = repr(target)
    codes = set()
    pointer = "".join(f"/{part}" for part in path)
    for action in ("add", "remove", "replace", "test", "move", "copy"):
        operation = {"op": action, "path": pointer, "value": value, "from": "/a"}
        try:
            json_patch(target, [operation])
        except ApiError as error:
            codes.add(error.code)

    assert repr(target) == before
    assert codes <= {422}


def test_too_many_operations_are_refused_before_any_is_tried() -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({}, [{"op": "add", "path": "/a", "value": 1}] * 10_001)

    assert caught.value.code == 413


def test_a_json_patch_test_distinguishes_true_from_one() -> None:
    assert not json_equal(True, 1)
    assert not json_equal({"a": [0]}, {"a": [False]})
    assert json_equal({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]})


A, B, C = ({"uid": uid, "name": uid} for uid in "abc")


@pytest.mark.parametrize(
    ("held", "patch", "expected"),
    [
        ([A], {"ownerReferences": [B]}, [B, A]),
        ([A, B], {"ownerReferences": [{"uid": "a", "controller": True}]}, None),
        ([A, B], {"ownerReferences": [{"uid": "a", "$patch": "delete"}]}, [B]),
        ([A, B], {"ownerReferences": [{"$patch": "replace"}, C]}, [C]),
        (
            [A, B],
            {"$setElementOrder/ownerReferences": [{"uid": "b"}, {"uid": "a"}]},
            [B, A],
        ),
    ],
    ids=["add", "change", "delete", "replace", "order"],
)
def test_a_strategic_patch_merges_owners_by_uid(
    held: list[Any], patch: dict[str, Any], expected: list[Any] | None
) -> None:
    found = strategic_patch({"metadata": {"ownerReferences": held}}, {"metadata": patch})

    merged = expected if expected is not None else [{**A, "controller": True}, B]
    assert found["metadata"]["ownerReferences"] == merged
    assert "$" not in str(found)


def test_a_strategic_patch_merges_finalizers_and_conditions() -> None:
    target = {
        "metadata": {"finalizers": ["a", "b"]},
        "status": {"conditions": [{"type": "X", "status": "True", "reason": "R"}]},
        "data": {"kept": "1", "gone": "2"},
    }
    patch = {
        "metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]},
        "status": {"conditions": [{"type": "Y"}, {"type": "X", "status": "False"}]},
        "data": {"gone": None},
    }

    assert strategic_patch(target, patch) == {
        "metadata": {"finalizers": ["c", "b"]},
        "status": {"conditions": [{"type": "Y"}, {"type": "X", "status": "False", "reason": "R"}]},
        "data": {"kept": "1"},
    }


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"$patch": "replace", "c": 3}, {"c": 3}),
        ({"$patch": "delete"}, {}),
        ({"$patch": "merge", "c": 3}, {"a": 1, "b": 2, "c": 3}),
        ({"$retainKeys": ["b", "c"], "c": 3}, {"b": 2, "c": 3}),
    ],
)
def test_directives_of_a_strategic_patch_are_obeyed(
    patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert strategic_patch({"data": {"a": 1, "b": 2}}, {"data": patch}) == {"data": expected}


@pytest.mark.parametrize(
    "patch",
    [
        {"data": {"$patch": "no"}},
        {"metadata": {"ownerReferences": [{"name": "x"}]}},
        {"metadata": {"ownerReferences": ["x", 5]}},
        {"metadata": {"finalizers": [{}]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": [[]]}},
    ],
)
def test_a_malformed_strategic_patch_is_refused(patch: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        strategic_patch({"data": {}}, patch)

    assert refused.value.code == 400
