"""The subresource ``scale``: one number of an object, read and written as a Scale."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller, widget_server

GROUP = "/apis/scaled.example.com/v1/namespaces/default/widgets"
ONE = f"{GROUP}/one/scale"
PATHS = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.count"}


def definition() -> dict[str, Any]:
    crd = copy.deepcopy(WIDGET_CRD)
    crd["metadata"]["name"] = "widgets.scaled.example.com"
    crd["spec"]["group"] = "scaled.example.com"
    [version] = crd["spec"]["versions"]
    version["subresources"]["scale"] = PATHS
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    status["properties"]["count"] = {"type": "integer"}
    return crd


@asynccontextmanager
async def scaled() -> AsyncIterator[Caller]:
    async with widget_server() as caller:
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await caller.call("POST", crds, definition()))[0] == 201
        body = {
            "apiVersion": "scaled.example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "one"},
            "spec": {"size": 2, "color": "red"},
        }
        assert (await caller.call("POST", GROUP, body))[0] == 201
        yield caller


def scale(replicas: Any, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "one", **metadata},
        "spec": {"replicas": replicas},
    }


async def test_a_scale_has_both_replica_counts_and_the_objects_metadata() -> None:
    async with scaled() as caller:
        _, whole = await caller.call("GET", f"{GROUP}/one")
        code, found = await caller.call("GET", ONE)

        assert code == 200
        assert (found["apiVersion"], found["kind"]) == ("autoscaling/v1", "Scale")
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        assert found["metadata"] == {key: whole["metadata"][key] for key in kept}
        assert (found["spec"], found["status"]) == ({"replicas": 2}, {"replicas": 0})


async def test_writing_a_scale_changes_the_replicas_and_nothing_else() -> None:
    async with scaled() as caller:
        _, before = await caller.call("GET", f"{GROUP}/one")
        code, written = await caller.call("PUT", ONE, scale(5))
        _, after = await caller.call("GET", f"{GROUP}/one")

        assert (code, written["spec"]) == (200, {"replicas": 5})
        assert written["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        assert after["spec"] == {"size": 5, "color": "red"}
        assert after["status"] == before["status"]
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (scale(-1), 422, ".spec.size: Invalid value: -1"),
        (scale("many"), 400, "spec.replicas"),
        (scale(3, resourceVersion="1"), 409, "modified"),
        (scale(3, uid="another"), 409, "UID in precondition"),
        (scale(3, name="two"), 400, "does not match"),
        ({"kind": "Widget"}, 400, "expected Scale of autoscaling/v1"),
    ],
)
async def test_an_invalid_scale_is_refused_and_changes_nothing(
    body: dict[str, Any], code: int, message: str
) -> None:
    async with scaled() as caller:
        _, before = await caller.call("GET", f"{GROUP}/one")
        found, answer = await caller.call("PUT", ONE, body)

        assert (found, message in answer["message"]) == (code, True), answer
        assert (await caller.call("GET", f"{GROUP}/one"))[1] == before


async def test_a_dry_run_of_a_scale_changes_nothing() -> None:
    async with scaled() as caller:
        _, written = await caller.call("PUT", ONE, scale(7), query={"dryRun": "All"})
        assert written["spec"] == {"replicas": 7}
        _, whole = await caller.call("GET", f"{GROUP}/one")
        assert whole["spec"]["size"] == 2


async def test_a_kind_without_a_scale_declaration_has_no_scale() -> None:
    async with widget_server() as caller:
        await caller.create("one")
        assert (await caller.call("GET", f"{WIDGETS_PATH}/one/scale"))[0] == 404
