"""What a request costs grows with its size and no faster, and its response stays small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from datum_compute.apiserver.errors import ApiError
from datum_compute.apiserver.objects.patches import json_patch, strategic_patch
from datum_compute.apiserver.request.body import yaml_value
from datum_compute.apiserver.schema import compiled
from tests.support.apiserver.growth import LINEAR, cpu_growth
from tests.support.apiserver.widgets import WIDGETS_PATH, widget, widget_server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def schema(**properties: Any) -> Callable[[dict[str, Any]], object]:
    return compiled({"type": "object", "properties": properties}).process


def many(value: Any) -> Callable[[int], dict[str, Any]]:
    return lambda size: {"spec": {f"key{index}": value for index in range(size)}}


TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


@pytest.mark.parametrize(
    ("process", "make"),
    [
        (schema(spec={"type": "object"}), many(1)),
        (schema(spec=TEXTS), many(None)),
        (schema(spec={"type": "object", "properties": {"a": {"type": "string"}}}), many(None)),
    ],
    ids=["unknown fields", "nulls in a map", "unknown nulls"],
)
def test_dropping_fields_takes_linear_time(
    process: Callable[[dict[str, Any]], object], make: Callable[[int], dict[str, Any]]
) -> None:
    assert cpu_growth(make, process, 40_000) < LINEAR


def test_a_json_patch_copies_a_large_object_once() -> None:
    def make(size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        target = {f"key{index}": "" for index in range(size)}
        return target, [{"op": "add", "path": f"/new{index}", "value": 1} for index in range(size)]

    assert cpu_growth(make, lambda given: json_patch(*given), 8_000) < LINEAR

    target, operations = make(100)
    json_patch(target, operations)
    assert len(target) == 100


def test_a_json_patch_that_shifts_long_lists_again_and_again_is_refused() -> None:
    target = {"list": [0] * 100_000}
    operations = [{"op": "add", "path": "/list/0", "value": 1}] * 10_000

    with pytest.raises(ApiError) as refused:
        json_patch(target, operations)

    assert refused.value.code == 413
    assert len(json_patch(target, operations[:100])["list"]) == 100_100


def test_a_copy_of_a_json_patch_does_not_change_with_its_source() -> None:
    operations = [
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/y", "value": 2},
        {"op": "move", "from": "/a", "path": "/c"},
        {"op": "add", "path": "/c/z", "value": 3},
    ]
    target: dict[str, Any] = {"a": {}}

    assert json_patch(target, operations) == {"b": {"x": 1}, "c": {"x": 1, "y": 2, "z": 3}}
    assert target == {"a": {}}


def test_an_index_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        json_patch({"list": [1]}, [{"op": "remove", "path": f"/list/{'9' * 5_000}"}])

    assert refused.value.code == 422


def test_finalizers_are_merged_in_linear_time() -> None:
    def make(size: int) -> list[str]:
        return [f"example.com/f{index}" for index in range(size)]

    def work(names: list[str]) -> object:
        metadata = {"finalizers": names, "$deleteFromPrimitiveList/finalizers": names}
        return strategic_patch({"metadata": {"finalizers": names}}, {"metadata": metadata})

    assert cpu_growth(make, work, 8_000) < LINEAR


def test_a_schema_with_very_many_parts_is_compiled_in_linear_time() -> None:
    def make(size: int) -> dict[str, Any]:
        parts = [{"minLength": 1}] * size
        return {"type": "object", "properties": {"a": {"type": "string", "allOf": parts}}}

    assert cpu_growth(make, lambda source: compiled(source).process({}), 16_000) < LINEAR


async def test_of_very_many_faults_the_first_hundred_are_reported() -> None:
    async with widget_server() as caller:
        body = widget("one", {"tags": [1] * 300_000})

        response = await caller.send("POST", WIDGETS_PATH, body)
        code, answer = await caller.call("POST", WIDGETS_PATH, body)

        assert code == 422
        assert len(answer["details"]["causes"]) == 100
        assert answer["message"].endswith("and more: only the first 100 are reported]")
        assert len(response.body) < 100_000


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {f"key {index}": "no value" for index in range(900)}},
        {"annotations": {f"key {index}": "" for index in range(900)}},
        {"finalizers": [f"no name {index}" for index in range(900)]},
        {"ownerReferences": [{"apiVersion": f"a/b/{index}"} for index in range(900)]},
    ],
    ids=["labels", "annotations", "finalizers", "owners"],
)
async def test_of_very_many_faults_in_metadata_the_first_hundred_are_reported(
    metadata: dict[str, Any],
) -> None:
    async with widget_server() as caller:
        response = await caller.send("POST", WIDGETS_PATH, widget("one", **metadata))

        assert response.status == 422
        assert b"only the first 100 are reported" in response.body
        assert len(response.body) < 200_000


async def test_of_very_many_unknown_fields_the_first_hundred_are_named() -> None:
    async with widget_server() as caller:
        spec = {f"key{index:06}": 1 for index in range(50_000)}
        strict = {"fieldValidation": "Strict"}

        code, refused = await caller.call(
            "POST", WIDGETS_PATH, widget("one", spec, **spec), query=strict
        )
        taken = await caller.send("POST", WIDGETS_PATH, widget("one", spec))

        assert (code, taken.status) == (400, 201)
        assert refused["message"].count("unknown field") == 200  # of metadata and of spec
        assert (await caller.get("one"))["spec"] == {"size": 1}


async def test_a_long_value_is_cut_in_the_message_about_it() -> None:
    async with widget_server() as caller:
        code, answer = await caller.call("POST", WIDGETS_PATH, widget("x" * 100_000))

        assert code == 422
        assert 'metadata.name: Invalid value: "xxx' in answer["message"]
        assert len(answer["message"]) < 3_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("59:59:59", "59:59:59"),
        ("190:20:30.15", "190:20:30.15"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01 10:00:00", "2026-01-01 10:00:00"),
        ("yes", True),
        ("Off", False),
        ("y", True),
        ("1e3", 1000),
        ("010", 8),
        ("0o10", 8),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("09", 9),
        (".5", 0.5),
        ("1.2.3", "1.2.3"),
        ("~", None),
        ("", None),
        ('"yes"', "yes"),
        ("!!str 5", "5"),
        ("{yes: 1}", {"true": 1}),
        ("{<<: {a: 1}, b: 2}", {"a": 1, "b": 2}),
    ],
)
def test_yaml_is_read_as_the_real_server_reads_it(text: str, value: Any) -> None:
    found = yaml_value(f"a: {text}".encode())["a"]

    assert (type(found), found) == (type(value), value)


def test_a_long_scalar_of_colons_in_yaml_takes_linear_time() -> None:
    def make(size: int) -> bytes:
        return b"a: " + b":".join([b"59"] * size)

    assert cpu_growth(make, yaml_value, 40_000) < LINEAR
