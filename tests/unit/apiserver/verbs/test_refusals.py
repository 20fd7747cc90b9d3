"""What is refused, and in which order, as the real server does it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, widget, widget_server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def definition(plural: str, kind: str, group: str, **annotations: str) -> dict[str, Any]:
    return {
        **WIDGET_CRD,
        "metadata": {"name": f"{plural}.{group}", "annotations": annotations},
        "spec": {
            **WIDGET_CRD["spec"],
            "group": group,
            "names": {"plural": plural, "kind": kind},
        },
    }


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


APPROVED = {"api-approved.kubernetes.io": "https://example.com/approval"}


@pytest.mark.parametrize(
    ("plural", "kind", "group"),
    [
        ("leases", "Lease", "coordination.k8s.io"),
        ("leases", "Other", "coordination.k8s.io"),
        ("others", "Lease", "coordination.k8s.io"),
        ("customresourcedefinitions", "CustomResourceDefinition", "apiextensions.k8s.io"),
    ],
)
async def test_a_definition_cannot_take_over_a_built_in_kind(
    plural: str, kind: str, group: str
) -> None:
    async with widget_server() as caller:
        body = definition(plural, kind, group, **APPROVED)

        code, answer = await caller.call("POST", DEFINITIONS, body)

        assert code == 422
        assert "is served by the server itself" in answer["message"]
        assert (await caller.send("GET", LEASES)).status == 200


@pytest.mark.parametrize(
    ("group", "approval", "code"),
    [
        ("example.k8s.io", "", 422),
        ("example.kubernetes.io", "", 422),
        ("k8s.io", "", 422),
        ("example.k8s.io", "somehow", 422),
        ("example.k8s.io", "unapproved, for a test", 201),
        ("example.k8s.io", "https://example.com/approval", 201),
        ("notk8s.io", "", 201),
    ],
)
async def test_a_definition_in_a_group_of_kubernetes_needs_approval(
    group: str, approval: str, code: int
) -> None:
    async with widget_server() as caller:
        notes = {"api-approved.kubernetes.io": approval} if approval else {}

        found, answer = await caller.call(
            "POST", DEFINITIONS, definition("things", "Thing", group, **notes)
        )

        assert found == code
        if code == 422:
            (cause,) = answer["details"]["causes"]
            assert cause["field"] == "metadata.annotations[api-approved.kubernetes.io]"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Cluster"}, "spec.scope"),
        ({"names": {"kind": "Gadget"}}, "spec.names.kind"),
    ],
)
async def test_scope_and_kind_of_a_definition_never_change(
    change: dict[str, Any], field: str
) -> None:
    async with widget_server() as caller:
        await caller.create("one")
        path = f"{DEFINITIONS}/widgets.example.com"
        headers = {"content-type": "application/merge-patch+json"}

        code, answer = await caller.call("PATCH", path, {"spec": change}, headers=headers)

        assert code == 422
        assert causes(answer) == {(field, "FieldValueInvalid")}
        assert await caller.exists("one")


async def test_a_namespaced_collection_is_deleted_in_one_namespace_only() -> None:
    async with widget_server() as caller:
        await caller.create("one")

        # As in the real server, which knows the method of a built-in kind's path, and no path.
        custom = await caller.send("DELETE", "/apis/example.com/v1/widgets")
        assert (custom.status, custom.body) == (404, b"404 page not found\n")
        built_in, answer = await caller.call("DELETE", "/api/v1/configmaps")
        assert (built_in, answer["reason"]) == (405, "MethodNotAllowed")
        assert await caller.exists("one")

        await caller.call("DELETE", WIDGETS_PATH)
        assert not await caller.exists("one")


@pytest.mark.parametrize("orphan", [True, False])
async def test_a_delete_gives_one_propagation_policy(orphan: bool) -> None:
    async with widget_server() as caller:
        await caller.create("one")

        code, answer = await caller.delete(
            "one", propagationPolicy="Background", orphanDependents=orphan
        )

        assert code == 422
        assert causes(answer) == {("propagationPolicy", "FieldValueInvalid")}
        assert await caller.exists("one")


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_an_empty_precondition_of_a_delete_is_not_met(field: str) -> None:
    async with widget_server() as caller:
        await caller.create("one")

        code, answer = await caller.delete("one", preconditions={field: ""})

        assert (code, answer["reason"]) == (409, "Conflict")
        assert await caller.exists("one")


async def test_a_delete_with_the_body_of_an_object_deletes_nothing() -> None:
    async with widget_server() as caller:
        made = await caller.create("one")

        code, _ = await caller.call("DELETE", f"{WIDGETS_PATH}/one", made)

        assert code == 400
        assert (await caller.call("GET", f"{WIDGETS_PATH}/one"))[0] == 200


async def test_a_definition_is_not_replaced_blindly() -> None:
    async with widget_server() as caller:
        path = f"{DEFINITIONS}/{WIDGET_CRD['metadata']['name']}"
        code, refused = await caller.call("PUT", path, WIDGET_CRD)

        assert (code, causes(refused)) == (
            422,
            {("metadata.resourceVersion", "FieldValueInvalid")},
        )


@pytest.mark.parametrize(
    ("timeout", "code"), [("5s", 200), ("1h30m", 200), ("0", 200), ("5", 400), ("1s" * 5000, 400)]
)
async def test_a_timeout_is_a_duration(timeout: str, code: int) -> None:
    async with widget_server() as caller:
        found, _ = await caller.call("GET", WIDGETS_PATH, query={"timeout": timeout})

        assert found == code
