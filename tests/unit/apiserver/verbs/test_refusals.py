"""What is refused, and in which order, as the real server does it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apiserver.widgets import WIDGETS_PATH, widget, widget_server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def causes(answer: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["field"], one["reason"]) for one in answer["details"]["causes"]}


@pytest.mark.parametrize("finalizer", ["", " ", "not ok", "a/b/c", "-a/b"])
async def test_a_finalizer_is_a_qualified_name(finalizer: str) -> None:
    async with widget_server() as caller:
        await caller.create("there")

        made, answer = await caller.call(
            "POST", WIDGETS_PATH, widget("one", finalizers=[finalizer])
        )
        patched, _ = await caller.patch("there", {"metadata": {"finalizers": [finalizer]}})

        assert (made, patched) == (422, 422)
        assert causes(answer) == {("metadata.finalizers", "FieldValueInvalid")}
        assert "finalizers" not in (await caller.get("there"))["metadata"]


async def test_a_finalizer_of_a_built_in_kind_names_its_domain() -> None:
    async with widget_server() as caller:
        body = {"metadata": {"name": "one", "finalizers": ["hold"]}}

        code, answer = await caller.call("POST", CONFIG_MAPS, body)

        assert code == 422
        assert causes(answer) == {("metadata.finalizers[0]", "FieldValueInvalid")}


@pytest.mark.parametrize("named", ["", None, "other"])
@pytest.mark.parametrize("path", ["one", "absent"])
async def test_an_update_must_name_its_object(path: str, named: str | None) -> None:
    async with widget_server() as caller:
        before = await caller.create("one")
        body = {**before, "metadata": {**before["metadata"], "name": named}}

        code, answer = await caller.call("PUT", f"{WIDGETS_PATH}/{path}", body)

        expected = (
            f"the name of the object (other) does not match the name on the URL ({path})"
            if named
            else f"the name of the object ({path} based on URL) was undeterminable:"
            " name must be provided"
        )
        assert (code, answer["message"]) == (400, expected)


async def test_a_patch_may_not_remove_the_metadata() -> None:
    async with widget_server() as caller:
        before = await caller.create("one")

        code, _ = await caller.patch("one", {"metadata": None})

        assert code == 400
        assert await caller.get("one") == before


async def test_an_owner_reference_must_be_complete() -> None:
    async with widget_server() as caller:
        code, answer = await caller.call("POST", WIDGETS_PATH, widget("one", ownerReferences=[{}]))

        assert code == 422
        assert causes(answer) == {
            (f"metadata.ownerReferences.{key}", "FieldValueInvalid")
            for key in ("apiVersion", "kind", "name", "uid")
        }


async def test_a_body_of_another_kind_is_refused_except_for_status() -> None:
    async with widget_server() as caller:
        await caller.create("one")

        code, answer = await caller.patch("one", {"kind": "Gadget"})
        on_status, found = await caller.patch("one", {"kind": "Gadget"}, "status")

        assert (code, causes(answer)) == (422, {("kind", "FieldValueInvalid")})
        assert answer["message"].startswith('Gadget.example.com "one" is invalid')
        assert (on_status, found["kind"]) == (200, "Widget")


async def test_a_dry_run_ignores_the_revision_that_a_create_refuses() -> None:
    async with widget_server() as caller:
        body = widget("one", resourceVersion="1")

        code, _ = await caller.call("POST", WIDGETS_PATH, body)
        dry_run, stored = await caller.call("POST", WIDGETS_PATH, body, query={"dryRun": "All"})

        assert (code, dry_run) == (400, 201)
        assert "resourceVersion" not in stored["metadata"]
        assert not await caller.exists("one")


async def test_all_errors_of_a_list_option_are_reported() -> None:
    async with widget_server() as caller:
        code, answer = await caller.call("GET", WIDGETS_PATH, query={"resourceVersionMatch": "odd"})

        assert code == 422
        assert causes(answer) == {
            ("resourceVersionMatch", "FieldValueForbidden"),
            ("resourceVersionMatch", "FieldValueNotSupported"),
        }
