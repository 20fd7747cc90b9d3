"""managedFields and server-side apply, on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.apiserver.managed_widgets import definition
from tests.support.apiserver.widgets import Caller, widget_server

GADGETS = "/apis/example.com/v1/namespaces/default/gadgets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLY = {"content-type": "application/apply-patch+yaml"}
MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}


@asynccontextmanager
async def gadgets() -> AsyncIterator[Caller]:
    async with widget_server() as caller:
        code, _ = await caller.call("POST", DEFINITIONS, definition())
        assert code == 201
        yield caller


def gadget(spec: Any = None, **metadata: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "one", **metadata},
    }
    return obj if spec is None else {**obj, "spec": spec}


async def apply(
    caller: Caller,
    manager: str,
    body: Any,
    path: str = f"{GADGETS}/one",
    **query: str,
) -> tuple[int, Any]:
    return await caller.call(
        "PATCH", path, body, headers=APPLY, query={"fieldManager": manager, **query}
    )


async def current(caller: Caller) -> dict[str, Any]:
    return (await caller.call("GET", f"{GADGETS}/one"))[1]


def entries(obj: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """The sets of fields by manager, operation and, if it has one, subresource."""
    found: dict[tuple[str, ...], Any] = {}
    for each in obj["metadata"].get("managedFields", ()):
        key: tuple[str, ...] = (each["manager"], each["operation"])
        if "subresource" in each:
            key += (each["subresource"],)
        assert each["fieldsType"] == "FieldsV1"
        assert each["apiVersion"]
        found[key] = each["fieldsV1"]
    return found


async def test_a_create_owns_every_field_with_its_defaults() -> None:
    async with gadgets() as caller:
        body = gadget({"size": 2, "tags": ["a"], "ports": [{"name": "p", "port": 1}]})
        body["metadata"]["labels"] = {"a": "b"}
        _, made = await caller.call("POST", GADGETS, body, query={"fieldManager": "maker"})

        assert entries(made) == {
            ("maker", "Update"): {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {
                    ".": {},
                    "f:size": {},
                    "f:replicas": {},
                    "f:tags": {".": {}, 'v:"a"': {}},
                    "f:ports": {
                        ".": {},
                        'k:{"name":"p"}': {".": {}, "f:name": {}, "f:port": {}},
                    },
                },
            }
        }
        assert made == await current(caller)


@pytest.mark.parametrize(
    ("agent", "manager"),
    [("kubectl/v1.32.0 (linux/amd64)", "kubectl"), ("", "unknown"), ("a\x00b/1", "ab")],
)
async def test_without_a_field_manager_the_program_owns_what_it_writes(
    agent: str, manager: str
) -> None:
    async with gadgets() as caller:
        headers = {"user-agent": agent} if agent else {}
        _, made = await caller.call("POST", GADGETS, gadget({"size": 1}), headers=headers)

        assert list(entries(made)) == [(manager, "Update")]


async def test_a_patch_takes_over_what_it_changes_and_status_and_scale_have_their_own_entries() -> (
    None
):
    async with gadgets() as caller:
        await caller.call(
            "POST", GADGETS, gadget({"size": 1, "replicas": 1}), query={"fieldManager": "m1"}
        )
        await caller.call(
            "PATCH",
            f"{GADGETS}/one",
            {"spec": {"size": 2}},
            headers=MERGE,
            query={"fieldManager": "m2"},
        )
        await caller.call(
            "PATCH",
            f"{GADGETS}/one/status",
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            headers=MERGE,
            query={"fieldManager": "m1"},
        )
        await caller.call(
            "PATCH",
            f"{GADGETS}/one/scale",
            {"spec": {"replicas": 3}},
            headers=MERGE,
            query={"fieldManager": "scaler"},
        )

        assert entries(await current(caller)) == {
            ("m1", "Update"): {"f:spec": {}},
            ("m2", "Update"): {"f:spec": {"f:size": {}}},
            ("m1", "Update", "status"): {
                "f:status": {
                    ".": {},
                    "f:conditions": {
                        ".": {},
                        'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}},
                    },
                }
            },
            ("scaler", "Update", "scale"): {"f:spec": {"f:replicas": {}}},
        }


async def test_apply_creates_and_then_changes_what_it_states() -> None:
    async with gadgets() as caller:
        code, made = await apply(caller, "m1", gadget({"size": 2, "replicas": 4}))
        assert code == 201
        assert entries(made) == {("m1", "Apply"): {"f:spec": {"f:size": {}, "f:replicas": {}}}}

        code, changed = await apply(caller, "m1", gadget({"size": 3}))

        assert code == 200
        assert changed["spec"] == {"size": 3, "replicas": 1}, "the default returns"
        assert entries(changed) == {("m1", "Apply"): {"f:spec": {"f:size": {}}}}


async def test_the_same_apply_keeps_revision_and_time() -> None:
    async with gadgets() as caller:
        _, made = await apply(caller, "m1", gadget({"size": 2}))
        code, same = await apply(caller, "m1", gadget({"size": 2}))

        assert (code, same) == (200, made)


async def test_a_conflict_is_refused_and_force_takes_the_field_over() -> None:
    async with gadgets() as caller:
        await apply(caller, "f1", gadget({"ports": [{"name": "p", "port": 1}]}))
        body = gadget({"ports": [{"name": "p", "port": 2}]})

        code, refused = await apply(caller, "f2", body)
        assert code == 409
        assert refused["reason"] == "Conflict"
        assert refused["details"]["causes"] == [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "f1"',
                "field": '.spec.ports[name="p"].port',
            }
        ]

        code, forced = await apply(caller, "f2", body, force="true")
        assert code == 200
        port: dict[str, Any] = {".": {}, "f:name": {}}
        assert entries(forced) == {
            ("f1", "Apply"): {"f:spec": {"f:ports": {'k:{"name":"p"}': port}}},
            ("f2", "Apply"): {"f:spec": {"f:ports": {'k:{"name":"p"}': {**port, "f:port": {}}}}},
        }


async def test_a_conflict_with_an_update_names_its_version() -> None:
    async with gadgets() as caller:
        await caller.call("POST", GADGETS, gadget({"size": 1}), query={"fieldManager": "maker"})
        _, refused = await apply(caller, "m", gadget({"size": 2}))

        assert refused["message"] == (
            'Apply failed with 1 conflict: conflict with "maker" using example.com/v1: .spec.size'
        )


@pytest.mark.parametrize(
    ("query", "body", "code", "words"),
    [
        ({}, gadget(), 422, "fieldManager: Required value: is required for apply patch"),
        ({"fieldManager": "x" * 129}, gadget(), 422, "fieldManager: Too long"),
        (
            {"fieldManager": "m"},
            gadget(managedFields=[{"manager": "m"}]),
            400,
            "metadata.managedFields must be nil",
        ),
        ({"fieldManager": "m"}, b"[]", 400, "must be an object"),
        (
            {"fieldManager": "m"},
            gadget({"ports": [{"name": "a"}, {"name": "a"}]}),
            400,
            "more than once",
        ),
        ({"fieldManager": "m"}, gadget({"ports": [{"port": 1}]}), 400, "has no name"),
        ({"fieldManager": "m"}, {**gadget(), "apiVersion": "example.com/v2"}, 400, "version"),
        (
            {"fieldManager": "m", "fieldValidation": "Ignore"},
            gadget({"odd": 1}),
            400,
            ".spec.odd: field not declared in schema",
        ),
        ({"fieldManager": "m"}, gadget({"size": "x"}), 422, "spec.size"),
    ],
)
async def test_an_apply_that_cannot_be_done_is_refused(
    query: dict[str, str], body: Any, code: int, words: str
) -> None:
    async with gadgets() as caller:
        found, refused = await caller.call(
            "PATCH", f"{GADGETS}/one", body, headers=APPLY, query=query
        )

        assert (found, words in refused["message"]) == (code, True), refused


async def test_yaml_is_applied_too_and_a_dry_run_stores_nothing() -> None:
    async with gadgets() as caller:
        text = b"apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: one}\nspec: {size: 5}\n"
        code, tried = await apply(caller, "m", text, dryRun="All")
        assert (code, tried["spec"]["size"]) == (201, 5)
        assert entries(tried) == {("m", "Apply"): {"f:spec": {"f:size": {}}}}
        assert (await caller.call("GET", f"{GADGETS}/one"))[0] == 404


async def test_status_is_applied_through_its_path_alone() -> None:
    async with gadgets() as caller:
        await apply(caller, "m", {**gadget({"size": 1}), "status": {"phase": "X"}})
        code, done = await apply(
            caller, "m", {**gadget({"size": 9}), "status": {"phase": "Y"}}, f"{GADGETS}/one/status"
        )

        assert code == 200
        assert (done["spec"]["size"], done["status"]) == (1, {"phase": "Y"})
        assert entries(done) == {
            ("m", "Apply"): {"f:spec": {"f:size": {}}},
            ("m", "Apply", "status"): {"f:status": {"f:phase": {}}},
        }


async def test_scale_is_applied_and_conflicts_with_the_owner_of_the_count() -> None:
    async with gadgets() as caller:
        await apply(caller, "m", gadget({"replicas": 2}))
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "one"},
            "spec": {"replicas": 5},
        }
        code, refused = await apply(caller, "scaler", body, f"{GADGETS}/one/scale")
        assert (code, refused["details"]["causes"][0]["field"]) == (409, ".spec.replicas")

        code, scale = await apply(caller, "scaler", body, f"{GADGETS}/one/scale", force="true")
        assert (code, scale["spec"]) == (200, {"replicas": 5})
        found = await current(caller)
        assert entries(found) == {
            ("scaler", "Apply", "scale"): {"f:spec": {"f:replicas": {}}},
        }


async def test_one_empty_entry_clears_and_an_update_leaves_it_so() -> None:
    async with gadgets() as caller:
        _, made = await caller.call("POST", GADGETS, gadget({"size": 1}))
        body: Any = {"metadata": {"managedFields": [{}]}}
        _, cleared = await caller.call("PATCH", f"{GADGETS}/one", body, headers=MERGE)
        assert entries(cleared) == {}
        assert cleared["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]

        _, changed = await caller.call(
            "PATCH", f"{GADGETS}/one", {"spec": {"size": 2}}, headers=MERGE
        )
        assert entries(changed) == {}

        _, applied = await apply(caller, "m", gadget({"replicas": 1}))
        assert set(entries(applied)) == {("before-first-apply", "Update"), ("m", "Apply")}


async def test_a_client_may_rename_the_manager_of_its_own_entries() -> None:
    """As kubectl does when it moves from client-side to server-side apply."""
    async with gadgets() as caller:
        _, made = await caller.call(
            "POST", GADGETS, gadget({"size": 1}), query={"fieldManager": "kubectl-client"}
        )
        entry = {**made["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
            {
                "op": "replace",
                "path": "/metadata/resourceVersion",
                "value": made["metadata"]["resourceVersion"],
            },
        ]
        code, moved = await caller.call("PATCH", f"{GADGETS}/one", patch, headers=JSON_PATCH)

        assert (code, list(entries(moved))) == (200, [("kubectl", "Apply")])


@pytest.mark.parametrize("field", ["operation", "fieldsType"])
async def test_an_entry_of_no_known_form_leaves_the_managers_as_they_are(field: str) -> None:
    async with gadgets() as caller:
        _, made = await caller.call("POST", GADGETS, gadget({"size": 1}))
        before = entries(made)
        made["metadata"]["managedFields"][0][field] = "Odd"
        code, found = await caller.call("PUT", f"{GADGETS}/one", made)

        assert (code, entries(found)) == (200, before)


async def test_no_entries_at_all_remove_the_managers() -> None:
    async with gadgets() as caller:
        await caller.call("POST", GADGETS, gadget({"size": 1}))
        patch: Any = {"metadata": {"managedFields": []}}
        code, found = await caller.call("PATCH", f"{GADGETS}/one", patch, headers=MERGE)

        assert (code, "managedFields" in found["metadata"]) == (200, False)


async def test_entries_of_another_group_are_dropped() -> None:
    async with gadgets() as caller:
        _, made = await caller.call("POST", GADGETS, gadget({"size": 1}))
        made["metadata"]["managedFields"][0]["apiVersion"] = "odd/v9"
        made["metadata"]["managedFields"][0]["manager"] = "m" * 200
        code, found = await caller.call("PUT", f"{GADGETS}/one", made)

        assert (code, "managedFields" in found["metadata"]) == (200, False)


async def test_the_name_of_a_manager_that_is_given_is_judged() -> None:
    async with gadgets() as caller:
        _, made = await caller.call("POST", GADGETS, gadget({"size": 1}))
        made["metadata"]["managedFields"][0]["manager"] = "m" * 200
        code, refused = await caller.call("PUT", f"{GADGETS}/one", made)

        assert code == 422
        assert refused["details"]["causes"][0]["field"] == "metadata.managedFields[0].manager"


async def test_built_in_kinds_own_by_their_types() -> None:
    async with gadgets() as caller:
        owner = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u-1"}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "one",
                "finalizers": ["example.com/hold"],
                "ownerReferences": [owner],
            },
            "data": {"a": "1"},
        }
        _, made = await caller.call("POST", CONFIG_MAPS, body, query={"fieldManager": "m1"})
        assert entries(made)["m1", "Update"] == {
            "f:metadata": {
                "f:finalizers": {".": {}, 'v:"example.com/hold"': {}},
                "f:ownerReferences": {".": {}, 'k:{"uid":"u-1"}': {}},
            },
            "f:data": {".": {}, "f:a": {}},
        }

        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "one"},
            "data": {"b": "2"},
        }
        code, done = await apply(caller, "m2", body, f"{CONFIG_MAPS}/one")
        assert (code, done["data"]) == (200, {"a": "1", "b": "2"})
        assert entries(done)["m2", "Apply"] == {"f:data": {"f:b": {}}}


async def test_watches_and_lists_show_them_and_tables_too() -> None:
    async with gadgets() as caller:
        await apply(caller, "m", gadget({"size": 1}))
        _, listed = await caller.call("GET", GADGETS)
        table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        _, shown = await caller.call("GET", GADGETS, headers=table)

        assert entries(listed["items"][0]) == {("m", "Apply"): {"f:spec": {"f:size": {}}}}
        assert entries(shown["rows"][0]["object"]) == entries(listed["items"][0])
