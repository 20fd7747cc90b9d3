"""Authentication, authorization, unknown paths, version, discovery and OpenAPI."""

from __future__ import annotations

import pytest

from datum_compute.api import planes
from datum_compute.apiserver.server import ApiServer
from datum_compute.apiserver.storage.sqlite.store import LogStore
from datum_compute.client.transport import HttpRequest, HttpResponse
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, widget_server

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


async def test_an_unknown_token_is_unauthorized() -> None:
    async with widget_server() as caller:
        code, refused = await caller.call(
            "GET", WIDGETS_PATH, headers={"authorization": "Bearer stolen"}
        )

        assert (code, refused["reason"], refused["message"]) == (
            401,
            "Unauthorized",
            "Unauthorized",
        )


async def test_a_new_token_replaces_the_old_one() -> None:
    async with widget_server() as caller:
        server = caller.embedded.server
        old = {"authorization": "Bearer first"}
        server.add_user("robot", ["system:masters"], "first")
        before = await caller.send("GET", WIDGETS_PATH, headers=old)
        server.add_user("robot", ["system:masters"], "second")

        after = await caller.send("GET", WIDGETS_PATH, headers=old)

        assert (before.status, after.status) == (200, 401)


async def test_a_forbidden_response_names_the_missing_right() -> None:
    async with widget_server() as caller:
        caller.embedded.token("bob", ["developers"])
        bob = Caller(caller.embedded, "cell/dfw", "bob")

        code, one = await bob.call("GET", f"{WIDGETS_PATH}/one")
        _, cluster_wide = await bob.call("GET", "/apis/example.com/v1/widgets")
        _, path = await bob.call("GET", "/metrics")

        assert (code, one["reason"]) == (403, "Forbidden")
        assert one["message"] == (
            'widgets.example.com "one" is forbidden: User "bob" cannot get resource "widgets" in'
            ' API group "example.com" in the namespace "default"'
        )
        assert cluster_wide["message"] == (
            'widgets.example.com is forbidden: User "bob" cannot list resource "widgets" in API'
            ' group "example.com" at the cluster scope'
        )
        assert path["message"].startswith('forbidden: User "bob" cannot get path')


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/version", "/apis", "/api/v1"])
async def test_a_user_without_rights_cannot_tell_whether_a_plane_exists(path: str) -> None:
    async with widget_server() as caller:
        caller.embedded.token("bob", ["developers"])
        for headers in ({}, {"authorization": f"Bearer {caller.embedded.token('bob')}"}):
            answers = [
                await caller.embedded.server.handle(
                    HttpRequest("GET", f"/clusters/{name}{path}", headers=headers)
                )
                for name in ("dfw", "xyz")
            ]

            assert [answer.status for answer in answers] == [403, 403]
            assert answers[0].body == answers[1].body.replace(b"xyz", b"dfw")


async def test_anonymous_callers_may_only_read_health_and_version() -> None:
    async with widget_server() as caller:
        handle = caller.embedded.server.handle

        alive = await handle(HttpRequest("GET", "/readyz"))
        version = await handle(HttpRequest("GET", "/version"))
        objects = await handle(HttpRequest("GET", "/api/v1/namespaces"))

        assert (alive.status, alive.body) == (200, b"ok")
        assert version.status == 200
        assert objects.status == 403


@pytest.mark.parametrize("path", ["healthz", "livez", "readyz", "version", "api", "healthz/", "x"])
async def test_anonymous_callers_cannot_tell_whether_a_project_exists(path: str) -> None:
    async with embedded_server() as embedded:
        responses = []
        for name in ("demo", "nothing"):
            plane = planes.plane_prefix(f"project/{name}")
            response = await embedded.server.handle(HttpRequest("GET", f"{plane}/{path}"))
            responses.append((response.status, response.body.replace(name.encode(), b"NAME")))

        assert responses[0] == responses[1]
        assert responses[0][0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/apis/nothing.example/v1/things",
        "/apis/example.com/v2/widgets",
        "/apis/example.com/v1/namespaces/default/gadgets",
        "/apis/example.com/v1/widgets/one",
        "/apis/example.com/v1/namespaces/default/widgets/one/status/more",
    ],
)
async def test_an_unknown_path_is_a_404_in_plain_text(path: str) -> None:
    async with widget_server() as caller:
        answer = await caller.send("GET", path)

        assert (answer.status, answer.body) == (404, b"404 page not found\n")
        assert answer.headers["content-type"].startswith("text/plain")


async def test_an_empty_or_asterisk_target_is_a_404() -> None:
    async with widget_server() as caller:
        headers = {"authorization": f"Bearer {caller.embedded.token()}"}
        for path in ("", "*"):
            answer = await caller.embedded.server.handle(HttpRequest("GET", path, headers=headers))

            assert answer.status == 404


async def test_an_unsupported_method_of_a_path_is_not_allowed() -> None:
    async with widget_server() as caller:
        on_object = await caller.call("POST", f"{WIDGETS_PATH}/one", {})
        on_collection = await caller.call("PUT", WIDGETS_PATH, {})

        assert on_object[0] == on_collection[0] == 405


async def test_the_server_reports_version_1_32() -> None:
    async with widget_server() as caller:
        _, version = await caller.call("GET", "/version")

        assert (version["major"], version["minor"]) == ("1", "32")
        assert version["gitVersion"].startswith("v1.32.")


async def test_discovery_shows_a_kind_in_both_forms() -> None:
    async with widget_server() as caller:
        _, groups = await caller.call("GET", "/apis")
        _, resources = await caller.call("GET", "/apis/example.com/v1")
        aggregated = await caller.send("GET", "/apis", headers={"accept": AGGREGATED})
        unchanged = await caller.send(
            "GET",
            "/apis",
            headers={"accept": AGGREGATED, "if-none-match": aggregated.headers["etag"]},
        )

        assert "example.com" in [group["name"] for group in groups["groups"]]
        assert "widgets" in [resource["name"] for resource in resources["resources"]]
        assert "as=APIGroupDiscoveryList" in aggregated.headers["content-type"]
        assert b'"widgets"' in aggregated.body
        assert unchanged.status == 304


async def test_the_openapi_index_links_to_documents_of_the_same_plane() -> None:
    async with widget_server() as caller:
        _, index = await caller.call("GET", "/openapi/v3")
        link = index["paths"]["apis/example.com/v1"]["serverRelativeURL"]
        path, _, tag = link.partition("?hash=")
        prefix = "/clusters/dfw"

        document = await caller.send("GET", path.removeprefix(prefix), query={"hash": tag})

        assert path.startswith(prefix)
        assert document.headers["cache-control"] == "public, immutable"
        assert b"Widget" in document.body


async def test_a_user_may_review_its_own_identity_and_rights() -> None:
    async with widget_server() as caller:
        caller.embedded.token("bob", ["developers"])
        bob = Caller(caller.embedded, "root", "bob")
        review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "widgets"}}}
        may_i = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

        code, who = await bob.call(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"spec": {}}
        )
        _, admin = await caller.call("POST", may_i, review)
        _, refused = await bob.call("POST", may_i, review)

        assert code == 201
        assert who["status"]["userInfo"] == {
            "username": "bob",
            "groups": ["developers", "system:authenticated"],
        }
        assert admin["status"]["allowed"] is True
        assert refused["status"]["allowed"] is False


async def test_local_verbs_are_only_for_masters_and_outside_every_plane() -> None:
    async def local(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, request.path.encode())

    env = SimulatedEnvironment()
    server = ApiServer(env, LogStore(env), crds_for=lambda _: [], local=local)
    server.add_user("admin", ["system:masters"], "a")
    server.add_user("bob", ["developers"], "b")

    def request(token: str) -> HttpRequest:
        headers = {"authorization": f"Bearer {token}"}
        return HttpRequest("GET", "/local/v1/status", headers=headers)

    allowed = await server.handle(request("a"))
    refused = await server.handle(request("b"))

    assert (allowed.status, allowed.body) == (200, b"/local/v1/status")
    assert refused.status == 403
