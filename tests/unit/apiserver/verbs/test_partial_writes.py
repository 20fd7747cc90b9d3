"""Values that a write does not change are not validated again, unless the schema changed."""

from __future__ import annotations

import copy
from typing import Any

from datum_compute.apiserver.schema import compiled
from tests.support.apiserver.widgets import WIDGET_CRD, Caller, widget_server

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"


async def redefine(caller: Caller, **spec_properties: Any) -> None:
    """Replace the fields of a widget's spec."""
    versions = copy.deepcopy(WIDGET_CRD["spec"]["versions"])
    schema = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"] = spec_properties
    headers = {"content-type": "application/merge-patch+json"}
    code, answer = await caller.call(
        "PATCH", DEFINITION, {"spec": {"versions": versions}}, headers=headers
    )
    assert code == 200, answer


def test_a_value_is_not_validated_again_only_when_it_is_the_stored_one() -> None:
    part = {"type": "object", "properties": {"n": {"type": "integer"}}}
    schema = compiled({"type": "object", "properties": {"spec": part, "status": part}})
    old: dict[str, Any] = {"spec": {"n": "not judged"}, "status": {"n": 1}}

    same = schema.process(dict(old), old)
    equal = schema.process({"spec": {"n": "not judged"}, "status": old["status"]}, old)
    moved = schema.process({"spec": old["status"], "status": old["spec"]}, old)

    assert same.errors == []
    assert [str(error.path) for error in equal.errors] == ["spec.n"]
    assert [str(error.path) for error in moved.errors] == ["status.n"]


async def test_a_change_of_one_part_is_validated_after_changes_of_the_other() -> None:
    async with widget_server() as caller:
        await caller.create("one", {"size": 2, "tags": ["a"]})
        await caller.patch("one", {"status": {"ready": True}}, "status")

        wrong_spec, _ = await caller.patch("one", {"spec": {"size": -1}})
        wrong_status, _ = await caller.patch("one", {"status": {"ready": "yes"}}, "status")
        wrong_label, _ = await caller.patch("one", {"metadata": {"labels": {"a b": "c"}}})
        _, changed = await caller.patch("one", {"spec": {"size": None, "shape": "round"}})

        assert (wrong_spec, wrong_status, wrong_label) == (422, 422, 422)
        assert changed["spec"] == {"size": 1, "tags": ["a"]}
        assert changed["metadata"]["generation"] == 2
        assert changed["status"] == {"phase": "New", "ready": True}


async def test_a_patch_under_a_new_schema_prunes_and_defaults_the_whole_object() -> None:
    async with widget_server() as caller:
        made = await caller.create("one", {"color": "red", "size": 3})
        await redefine(
            caller, size={"type": "integer"}, shape={"type": "string", "default": "round"}
        )

        code, labelled = await caller.patch("one", {"metadata": {"labels": {"a": "b"}}})
        _, again = await caller.patch("one", {"metadata": {"labels": {"a": "b"}}})

        assert code == 200
        assert labelled["spec"] == {"size": 3, "shape": "round"}
        # It was read so already: the patch has not changed the specification.
        assert labelled["metadata"]["generation"] == made["metadata"]["generation"]
        assert again == labelled


async def test_a_part_that_a_new_schema_forbids_stays_until_it_is_changed() -> None:
    async with widget_server() as caller:
        await caller.create("one", {"size": 3, "color": "red"}, finalizers=["example.com/keep"])
        await redefine(caller, size={"type": "integer", "maximum": 2}, color={"type": "string"})

        reported, _ = await caller.patch("one", {"status": {"ready": True}}, "status")
        wrong_status, _ = await caller.patch("one", {"status": {"ready": "yes"}}, "status")
        changed, answer = await caller.patch("one", {"spec": {"color": "blue"}})
        marked, _ = await caller.delete("one")
        released, _ = await caller.patch("one", {"metadata": {"finalizers": None}})

        assert (reported, wrong_status, changed) == (200, 422, 422)
        assert answer["details"]["causes"][0]["field"] == "spec.size"
        assert (marked, released, await caller.exists("one")) == (200, 200, False)
