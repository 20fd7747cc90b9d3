"""Small things that clients of a real server rely on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datum_compute.client.transport import HttpRequest
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller, widget_server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"content-type": "application/merge-patch+json"}


@pytest.mark.parametrize("spelling", ["true", "1", "True", "TRUE", "t", "yes", ""])
async def test_a_watch_is_asked_for_in_many_spellings(spelling: str) -> None:
    async with widget_server() as caller:
        query = {"watch": spelling, "timeoutSeconds": "1"}

        response = await caller.send("GET", WIDGETS_PATH, query=query)

        assert response.stream is not None


@pytest.mark.parametrize("spelling", ["false", "0", "False"])
async def test_no_watch_is_asked_for_in_fewer(spelling: str) -> None:
    async with widget_server() as caller:
        code, listed = await caller.call("GET", WIDGETS_PATH, query={"watch": spelling})

        assert (code, listed["kind"]) == (200, "WidgetList")


async def test_a_path_may_end_with_a_slash() -> None:
    async with widget_server() as caller:
        await caller.create("one")

        assert (await caller.call("GET", f"{WIDGETS_PATH}/"))[1]["kind"] == "WidgetList"
        assert (await caller.call("GET", f"{WIDGETS_PATH}/one/"))[1]["kind"] == "Widget"


async def test_health_answers_head() -> None:
    async with widget_server() as caller:
        for path in ("/healthz", "/livez", "/readyz"):
            assert (await caller.send("HEAD", path)).status == 200
        assert (await caller.send("HEAD", "/apis")).status == 405


async def test_a_put_creates_a_lease() -> None:
    async with widget_server() as caller:
        body = {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "me"}}

        code, made = await caller.call("PUT", f"{LEASES}/lock", body)
        blind, _ = await caller.call("PUT", f"{LEASES}/lock", body)
        again, _ = await caller.call("PUT", f"{LEASES}/lock", made)

        assert (code, made["spec"]["holderIdentity"]) == (201, "me")
        assert (blind, again) == (422, 200), "an update names the revision it replaces"
        absent = "/api/v1/namespaces/default/configmaps/absent"
        code, _ = await caller.call("PUT", absent, {"metadata": {"name": "absent"}})
        assert code == 404


async def test_a_put_that_creates_needs_both_rights() -> None:
    async with widget_server() as admin:
        admin.embedded.token("bob", [])
        bob = Caller(admin.embedded, "cell/dfw", "bob")
        roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        rule = {"verbs": ["update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
        await admin.call("POST", f"{roles}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
        binding = {
            "metadata": {"name": "r"},
            "subjects": [{"kind": "User", "name": "bob"}],
            "roleRef": {"kind": "Role", "name": "r"},
        }
        await admin.call("POST", f"{roles}/rolebindings", binding)

        code, refused = await bob.call("PUT", f"{LEASES}/lock", {"metadata": {"name": "lock"}})

        assert code == 403
        assert "cannot create" in refused["message"]


async def test_a_revision_of_the_future_is_a_timeout() -> None:
    async with widget_server() as caller:
        made = await caller.create("one")
        ahead = str(int(made["metadata"]["resourceVersion"]) + 100)

        code, refused = await caller.call(
            "GET", f"{WIDGETS_PATH}/one", query={"resourceVersion": ahead}
        )

        assert (code, refused["reason"]) == (504, "Timeout")
        assert refused["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_a_namespace_says_what_its_deletion_waits_for() -> None:
    async with widget_server() as caller:
        await caller.call("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
        held = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "finalizers": ["example.com/hold"]},
        }
        path = "/apis/example.com/v1/namespaces/n/widgets"
        await caller.call("POST", path, held)
        await caller.call("DELETE", "/api/v1/namespaces/n")
        await asyncio.sleep(1)

        _, namespace = await caller.call("GET", "/api/v1/namespaces/n")

        conditions = {each["type"]: each for each in namespace["status"]["conditions"]}
        remaining = conditions["NamespaceContentRemaining"]
        assert (remaining["status"], remaining["reason"]) == ("True", "SomeResourcesRemain")
        assert "widgets.example.com has 1 resource instances" in remaining["message"]
        waiting = conditions["NamespaceFinalizersRemaining"]
        assert "example.com/hold in 1 resource instances" in waiting["message"]
        assert conditions["NamespaceDeletionContentFailure"]["status"] == "False"
        await caller.call("PATCH", f"{path}/w", {"metadata": {"finalizers": None}}, headers=MERGE)
        await asyncio.sleep(1)
        assert (await caller.call("GET", "/api/v1/namespaces/n"))[0] == 404


def _with_versions(*versions: dict[str, Any]) -> dict[str, Any]:
    first = WIDGET_CRD["spec"]["versions"][0]
    return {
        **WIDGET_CRD,
        "metadata": {"name": "things.example.org"},
        "spec": {
            **WIDGET_CRD["spec"],
            "group": "example.org",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{**first, **each} for each in versions],
        },
    }


async def test_a_deprecated_version_warns() -> None:
    async with widget_server() as caller:
        old = {"name": "v1", "storage": False, "deprecated": True}
        body = _with_versions(old, {"name": "v2"})
        code, made = await caller.call("POST", DEFINITIONS, body)
        assert code == 201, made

        warned = await caller.send("GET", "/apis/example.org/v1/things")
        quiet = await caller.send("GET", "/apis/example.org/v2/things")

        assert warned.headers["warning"] == '299 - "example.org/v1 Thing is deprecated"'
        assert "warning" not in quiet.headers


async def test_a_stored_version_stays_until_it_is_migrated() -> None:
    async with widget_server() as caller:
        await caller.call("POST", DEFINITIONS, _with_versions({"name": "v1"}))
        path = f"{DEFINITIONS}/things.example.org"
        _, held = await caller.call("GET", path)
        both = _with_versions({"name": "v1", "storage": False}, {"name": "v2"})
        code, held = await caller.call("PUT", path, {**held, "spec": both["spec"]})
        assert (code, held["status"]["storedVersions"]) == (200, ["v1", "v2"])
        only = _with_versions({"name": "v2"})

        code, refused = await caller.call("PUT", path, {**held, "spec": only["spec"]})

        assert (code, refused["details"]["causes"][0]["field"]) == (422, "status.storedVersions[0]")
        status = {"status": {"storedVersions": ["v2"]}}
        code, held = await caller.call("PATCH", f"{path}/status", status, headers=MERGE)
        assert code == 200, held
        code, _ = await caller.call("PUT", path, {**held, "spec": only["spec"]})
        assert code == 200


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy"),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields"),
    ],
)
async def test_what_is_not_served_is_refused(change: dict[str, Any], field: str) -> None:
    async with widget_server() as caller:
        body = _with_versions({"name": "v1"})
        body["spec"] |= change

        code, refused = await caller.call("POST", DEFINITIONS, body)

        assert (code, refused["details"]["causes"][0]["field"]) == (422, field)


async def test_a_path_without_a_slash_is_unknown() -> None:
    async with widget_server() as caller:
        request = HttpRequest("GET", "/clusters/dfw/", headers={})
        assert (await caller.embedded.server.handle(request)).status in (403, 404)
