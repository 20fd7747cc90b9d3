"""The definitions a plane has by its type: read-only for its users, put back at a start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from datum_compute.api.planes import CELL
from datum_compute.apiserver.request.access import PolicyRule
from datum_compute.apiserver.request.roles import Roles
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller, widget, widget_server

PLANE = "cell/dfw"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OWN = f"{DEFINITIONS}/widgets.example.com"
MERGE_PATCH = {"content-type": "application/merge-patch+json"}
CHANGE = {"metadata": {"labels": {"a": "b"}}}


def other_definition() -> dict[str, Any]:
    crd: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(WIDGET_CRD))
    crd["metadata"]["name"] = "gadgets.example.org"
    crd["spec"]["group"] = "example.org"
    crd["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    return crd


async def test_a_user_of_a_plane_cannot_change_or_delete_a_definition_of_the_platform() -> None:
    verbs = ("get", "list", "create", "update", "patch", "delete", "deletecollection")
    roles = Roles()
    roles.grant("member", CELL.name, [PolicyRule("*", "*", verbs)])
    async with embedded_server(
        crds_for=lambda _: [WIDGET_CRD], cells=("dfw",), projects=(), authorizer=roles
    ) as embedded:
        embedded.token("member", ())
        member, admin = Caller(embedded, PLANE, "member"), Caller(embedded, PLANE)
        _, held = await member.call("GET", OWN)

        refusals = [
            await member.call("PATCH", OWN, CHANGE, headers=MERGE_PATCH),
            await member.call("PATCH", f"{OWN}/status", {"status": {}}, headers=MERGE_PATCH),
            await member.call("PUT", OWN, held),
            await member.call("DELETE", OWN),
            await member.call("DELETE", DEFINITIONS),
        ]

        for code, answer in refusals:
            assert (code, answer["reason"]) == (403, "Forbidden")
            assert "the platform needs this definition" in answer["message"]
        assert (await member.call("GET", OWN))[1] == held
        path = f"{DEFINITIONS}/gadgets.example.org"
        assert (await member.call("POST", DEFINITIONS, other_definition()))[0] == 201
        assert (await member.call("PATCH", path, CHANGE, headers=MERGE_PATCH))[0] == 200
        assert (await member.call("DELETE", path))[0] == 200
        assert (await admin.call("PATCH", OWN, CHANGE, headers=MERGE_PATCH))[0] == 200


def drop_schema(crd: dict[str, Any]) -> None:
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = {}


def change_scope(crd: dict[str, Any]) -> None:
    crd["spec"]["scope"] = "Cluster"


def change_names(crd: dict[str, Any]) -> None:
    crd["spec"]["names"] = {"kind": "Other", "plural": "widgets"}


def stop_serving(crd: dict[str, Any]) -> None:
    crd["spec"]["versions"][0]["served"] = False


def refuse_names(crd: dict[str, Any]) -> None:
    for condition in crd["status"]["conditions"]:
        condition["status"] = "False"


def drop_versions(crd: dict[str, Any]) -> None:
    crd["spec"]["versions"] = []


def drop_spec(crd: dict[str, Any]) -> None:
    del crd["spec"]


@pytest.mark.parametrize(
    "damage",
    [
        drop_schema,
        change_scope,
        change_names,
        stop_serving,
        refuse_names,
        drop_versions,
        drop_spec,
    ],
)
async def test_a_damaged_definition_of_the_platform_is_put_back_at_the_next_start(
    tmp_path: Path, damage: Callable[[dict[str, Any]], None]
) -> None:
    file = tmp_path / "store.db"
    async with widget_server(path=file) as caller:
        await caller.create("one")
        await caller.call("POST", DEFINITIONS, other_definition())
        _, shipped = await caller.call("GET", OWN)
        _, other = await caller.call("GET", f"{DEFINITIONS}/gadgets.example.org")
    store = LogStore(SimulatedEnvironment(), str(file))
    plane = store.planes[PLANE]
    resource = "customresourcedefinitions.apiextensions.k8s.io"
    stored = plane.table(resource).get("", "widgets.example.com")
    assert stored is not None
    crd = msgspec.json.decode(stored.raw)
    damage(crd)
    plane.put(resource, crd, stored)
    await store.wait_durable()
    store.close()

    async with widget_server(path=file) as caller:
        _, found = await caller.call("GET", OWN)

        assert found["spec"] == shipped["spec"]
        for field in ("acceptedNames", "storedVersions"):
            assert found["status"][field] == shipped["status"][field]
        assert (await caller.get("one"))["spec"] == {"size": 1}
        assert (await caller.create("two", {"size": 3}))["spec"] == {"size": 3}
        assert (await caller.call("GET", f"{DEFINITIONS}/gadgets.example.org"))[1] == other
        code, _ = await caller.call("POST", WIDGETS_PATH, widget("three", {"size": "x"}))
        assert code == 422
