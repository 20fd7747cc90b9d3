"""Users with roles in two projects: neither sees, changes or finds out about the other's."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from datum_compute.api import planes
from datum_compute.apiserver.http.connection import HttpServerConnection
from datum_compute.apiserver.request.access import token_hash
from datum_compute.apiserver.request.roles import Roles
from datum_compute.assembly.local.partitions import Partitions
from datum_compute.assembly.local.state import LocalSettings
from datum_compute.assembly.local.users import ROLES, LocalUsers, UserRefused
from datum_compute.assembly.local.verbs import USERS, LocalVerbs
from datum_compute.client.transport import HttpRequest
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.server import EmbeddedServer, embedded_server

pytestmark = pytest.mark.realtime

PROJECTS = "/apis/resourcemanager.miloapis.com/v1alpha1/projects"
COMPUTE = "/apis/compute.datumapis.com/v1alpha/namespaces/default"
CORE = "/api/v1/namespaces/default"
MARKER = "only-in-the-shop"
ABSENT = "nono"
"""A project that does not exist; its name is as long as ``shop``."""


@dataclass
class World:
    embedded: EmbeddedServer
    users: LocalUsers
    port: int
    tokens: dict[str, str]
    roles: Roles

    async def send(
        self, method: str, target: str, *headers: str, token: str = "", body: bytes = b""
    ) -> tuple[int, bytes]:
        """One request as bytes on a connection of its own; the status and the body."""
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"Authorization: Bearer {token}"] * bool(token)
        if not any(each.lower().startswith("transfer-encoding") for each in headers):
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([*lines, *headers]).encode("latin-1") + b"\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(head + body)
            async with asyncio.timeout(20):  # a watch that was opened by mistake never ends
                answer = await reader.read()
        finally:
            writer.close()
        first, _, rest = answer.partition(b"\r\n\r\n")
        return int(first.split(b" ", 2)[1]), rest

    async def call(self, user: str, method: str, project: str, path: str, body: Any = None) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        target = plane(project) + path
        status, answer = await self.send(method, target, token=self.tokens[user], body=content)
        return status, json.loads(answer) if answer[:1] == b"{" else answer


def plane(project: str) -> str:
    return planes.plane_prefix(f"project/{project}")


def config_map(name: str, value: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"value": value},
    }


@asynccontextmanager
async def two_projects() -> AsyncIterator[World]:
    """``ana`` may edit in demo and ``ben`` in shop; shop has objects that ana must not see."""
    roles = Roles()
    names = ("demo", "shop", "sho", "shop2")
    async with embedded_server(authorizer=roles, projects=names) as embedded:
        users = LocalUsers(SimulatedEnvironment(7), embedded.store, roles)
        tokens = {}
        for name, project in (("ana", "demo"), ("ben", "shop"), ("cy", "sho"), ("dot", "shop2")):
            token = users.add(name, project, "editor")
            assert token is not None
            tokens[name] = token
        server = await asyncio.get_running_loop().create_server(
            lambda: HttpServerConnection(embedded.server.handle, 30), "127.0.0.1", 0
        )
        try:
            port = server.sockets[0].getsockname()[1]
            world = World(embedded, users, port, tokens, roles)
            for user, project in (("ana", "demo"), ("ben", "shop")):
                for number in range(3):
                    value = MARKER if project == "shop" else "public"
                    body = config_map(f"web-{number}", value)
                    made = await world.call(user, "POST", project, f"{CORE}/configmaps", body)
                    assert made[0] == 201, made
            yield world
        finally:
            server.close()


def state_of(world: World, project: str) -> dict[str, bytes]:
    stored = world.embedded.store.planes[f"project/{project}"]
    return {
        f"{resource}/{each.namespace}/{each.name}": each.raw
        for resource in ("configmaps", "secrets", "namespaces", "workloads.compute.datumapis.com")
        for each in stored.table(resource).in_order(None)
    }


REVIEW = {"spec": {"resourceAttributes": {"verb": "list", "resource": "secrets"}}}
WITHIN: list[tuple[str, str, Any]] = [
    *(
        ("GET", path, None)
        for path in (
            "", "/", "/healthz", "/livez", "/readyz", "/readyz?verbose", "/readyz/ping", "/version",
            "/api", "/apis", "/api/v1", "/apis/compute.datumapis.com",
            "/apis/compute.datumapis.com/v1alpha", "/openapi/v2", "/openapi/v3",
            "/openapi/v3/api/v1", "/metrics", "/local/v1/status", "/nothing",
            "/api/v1/namespaces", "/api/v1/namespaces/default", "/api/v1/configmaps",
            f"{CORE}/configmaps", f"{CORE}/configmaps/web-0", f"{CORE}/configmaps/nosuch",
            f"{CORE}/configmaps?watch=true", f"{CORE}/configmaps?watch=1&resourceVersion=0",
            f"{CORE}/configmaps?watch=true&resourceVersion=OWN",
            f"{CORE}/configmaps?limit=1&continue=TOKEN",
            f"{CORE}/configmaps?labelSelector=a%3Db", f"{CORE}/secrets", f"{CORE}/events",
            f"{COMPUTE}/workloads", f"{COMPUTE}/workloads/web",
            f"{COMPUTE}/workloads/web/status", f"{COMPUTE}/workloads/web/scale",
            f"{COMPUTE}/instances/web-default-dfw-0/log",
            f"{COMPUTE}/instances/web-default-dfw-0/log?follow=true",
            f"{COMPUTE}/instances/web-default-dfw-0/exec?command=sh",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "/apis/quota.miloapis.com/v1alpha1/namespaces/milo-system/allowancebuckets",
        )
    ),
    ("HEAD", "/healthz", None),
    ("POST", "/healthz", None),
    ("OPTIONS", "/api", None),
    ("POST", f"{CORE}/configmaps", config_map("planted", "x")),
    ("PUT", f"{CORE}/configmaps/web-0", config_map("web-0", "x")),
    ("PATCH", f"{CORE}/configmaps/web-0", {"data": {"value": "x"}}),
    ("DELETE", f"{CORE}/configmaps/web-0", None),
    ("DELETE", f"{CORE}/configmaps", None),
    ("DELETE", "/api/v1/namespaces/default", None),
    ("PATCH", f"{COMPUTE}/workloads/web/status", {"status": {}}),
    ("PUT", f"{COMPUTE}/workloads/web/scale", {"spec": {"replicas": 0}}),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"spec": {}}),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", REVIEW),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", REVIEW),
    (
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {"spec": {"namespace": "default"}},
    ),
]  # fmt: skip
"""Requests on a plane."""

LIST = f"{CORE}/configmaps"
PATHS = [
    template.format(projects=PROJECTS, list=LIST)
    for template in (
        "{projects}/demo/control-plane/../../shop/control-plane{list}",
        "{projects}/demo/../shop/control-plane{list}",
        "{projects}/demo/%2e%2e/shop/control-plane{list}",
        "{projects}/demo/%2E%2E/shop/control-plane{list}",
        "{projects}/demo/..%2fshop/control-plane{list}",
        "{projects}/demo/..%5cshop/control-plane{list}",
        "{projects}/demo/%252e%252e/shop/control-plane{list}",
        "{projects}/demo%2f..%2fshop/control-plane{list}",
        "{projects}/demo/control-plane/%2e%2e/%2e%2e/shop/control-plane{list}",
        "{projects}/demo/control-plane{projects}/shop/control-plane{list}",
        "/clusters/../{projects}/shop/control-plane{list}",
        "/clusters/dfw/../..{projects}/shop/control-plane{list}",
        "/local/v1/../..{projects}/shop/control-plane{list}",
        "/healthz/..{projects}/shop/control-plane{list}",
        "/version{projects}/shop/control-plane{list}",
        "/{projects}/shop/control-plane{list}",
        "//{projects}/shop/control-plane{list}",
        "{projects}//shop/control-plane{list}",
        "{projects}/shop//control-plane{list}",
        "{projects}/shop/control-plane/{list}",
        "{projects}/./shop/control-plane{list}",
        "{projects}/shop/./control-plane{list}",
        "{projects}/shop%2fcontrol-plane{list}",
        "{projects}%2fshop/control-plane{list}",
        "{projects}/shop/control%2dplane{list}",
        "{projects}/%73%68%6f%70/control-plane{list}",
        "{projects}/Shop/control-plane{list}",
        "{projects}/SHOP/control-plane{list}",
        "{projects}/shop/Control-Plane{list}",
        "{projects}/shop%00/control-plane{list}",
        "{projects}/demo%00shop/control-plane{list}",
        "{projects}/shop%20/control-plane{list}",
        "{projects}/%20shop/control-plane{list}",
        "{projects}/shop;a=b/control-plane{list}",
        "{projects}/shop./control-plane{list}",
        "{projects}/shop%0d%0a/control-plane{list}",
        "{projects}/*/control-plane{list}",
        "{projects}/-/control-plane{list}",
        "{projects}/demo,shop/control-plane{list}",
        "{projects}/sho/control-plane{list}",
        "{projects}/shop2/control-plane{list}",
        "{projects}/dem/control-plane{list}",
        "{projects}/demo2/control-plane{list}",
        "/APIS/resourcemanager.miloapis.com/v1alpha1/projects/shop/control-plane{list}",
        "/apis/ResourceManager.miloapis.com/v1alpha1/projects/shop/control-plane{list}",
        "http://localhost{projects}/shop/control-plane{list}",
        "https://elsewhere.example{projects}/shop/control-plane{list}",
        "{projects}/demo/control-plane/api/v1/namespaces/default/configmaps/../../../../../../"
        "shop/control-plane{list}",
        "{projects}",
        "{projects}?watch=true",
        "{projects}/shop",
        "{projects}/demo",
        "{projects}/shop/status",
        "{projects}/shop/control-plane/..",
        "/apis/resourcemanager.miloapis.com/v1alpha1/organizations",
        "/api/v1/configmaps",
        "/api/v1/namespaces",
        "/metrics",
        "/metrics/",
        "/local/v1",
        "/local/v1/",
        "/local/v1/status",
        "/local/v1/users",
        "/local/v1/cells/dfw/disconnect",
        "/local/v1/projects/shop/prepare",
        "//local/v1/users",
        "/local/v1/%75sers",
        "/clusters/hub/apis/compute.datumapis.com/v1alpha/instances",
        "/clusters/hub/healthz",
        "/clusters/hub/apis",
        "/clusters/dfw/apis/compute.datumapis.com/v1alpha/instances",
        "/clusters/dfw/healthz",
        "/clusters/nosuch/healthz",
        "/clusters/dfw/api/v1/namespaces",
    )
]


def forged(world: World) -> Iterator[tuple[str, ...]]:
    """Headers by which a request claims to be somebody else's."""
    ana, ben = world.tokens["ana"], world.tokens["ben"]
    own = f"Authorization: Bearer {ana}"
    for name, value in (
        ("Impersonate-User", "ben"),
        ("Impersonate-User", "local-admin"),
        ("Impersonate-User", "admin"),
        ("Impersonate-Group", "system:masters"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Extra-project", "shop"),
        ("impersonate-extra-iam.miloapis.com%2fparent-name", "shop"),
        ("X-Remote-User", "ben"),
        ("X-Remote-User", "admin"),
        ("X-Remote-Group", "system:masters"),
        ("X-Remote-Extra-Parent-Name", "shop"),
        ("X-Forwarded-User", "admin"),
        ("X-Forwarded-Prefix", plane("shop")),
        ("X-Original-URL", plane("shop") + LIST),
        ("X-Rewrite-URL", plane("shop") + LIST),
        ("X-HTTP-Method-Override", "DELETE"),
        ("Cookie", f"token={ben[:-1]}"),
        ("Extra-Project", "shop"),
        ("Groups", "compute-editor:shop"),
    ):
        yield own, f"{name}: {value}"
        if name.lower().startswith("impersonate"):
            yield (f"{name}: {value}",)
    unknown = base64.b64encode(b"ben:" + ben.encode()).decode()
    yield (f"Authorization: Basic {unknown}",)
    yield (f"Authorization: Bearer {ben[:-1]}",)
    yield (f"Authorization: Bearer {ben}x",)
    yield (f"Authorization: Bearer {ben.swapcase()}",)
    yield (f"Authorization: Bearer {token_hash(ben).hex()}",)
    yield (f"Authorization: Bearer {ana} {ben}",)
    yield (f"Authorization: {ben}",)
    yield ("Authorization: Bearer",)
    yield ("Authorization: Bearer ben",)
    encoded = base64.urlsafe_b64encode(ben.encode()).decode().rstrip("=")
    yield (own, f"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.{encoded}")


def chunked(trailer: str) -> bytes:
    body = json.dumps(config_map("planted", "x")).encode()
    return f"{len(body):x}\r\n".encode() + body + f"\r\n0\r\n{trailer}\r\n\r\n".encode()


async def tokens_of_lists(world: World) -> tuple[str, str]:
    """The revision and a continue token of a list in demo."""
    _, listed = await world.call("ana", "GET", "demo", f"{LIST}?limit=1")
    return listed["metadata"]["resourceVersion"], listed["metadata"]["continue"]


async def test_no_request_of_another_project_s_user_is_answered_and_the_project_stays_hidden() -> (
    None
):
    attempts = 0
    async with two_projects() as world:
        before = state_of(world, "shop")
        revision, token = await tokens_of_lists(world)
        for method, path, body in WITHIN:
            content = b"" if body is None else json.dumps(body).encode()
            path = path.replace("OWN", revision).replace("TOKEN", token)
            for bearer in (world.tokens["ana"], "", "forged"):
                attempts += 1
                there = await world.send(method, plane("shop") + path, token=bearer, body=content)
                nowhere = await world.send(method, plane(ABSENT) + path, token=bearer, body=content)
                assert there[0] >= 400, (method, path, there)
                assert MARKER.encode() not in there[1], (method, path)
                alike = nowhere[1].replace(ABSENT.encode(), b"shop")
                assert (there[0], there[1]) == (nowhere[0], alike), (method, path)
        for path in PATHS:
            for method in ("GET", "POST"):
                attempts += 1
                status, answer = await world.send(method, path, token=world.tokens["ana"])
                assert status >= 400, (method, path, answer)
                assert MARKER.encode() not in answer, path
        for headers in forged(world):
            attempts += 1
            status, answer = await world.send("GET", plane("shop") + LIST, *headers)
            assert status in (401, 403), (headers, answer)
            assert MARKER.encode() not in answer, headers
        for trailer in (f"Authorization: Bearer {world.tokens['ben']}", "Impersonate-User: ben"):
            for own in ("", world.tokens["ana"]):
                attempts += 1
                status, _ = await world.send(
                    "POST", plane("shop") + LIST,
                    "Transfer-Encoding: chunked", "Content-Type: application/json",
                    token=own, body=chunked(trailer),
                )  # fmt: skip
                assert status == 403
        for twice in (("ana", "ben"), ("ben", "ana")):
            attempts += 1
            both = [f"Authorization: Bearer {world.tokens[user]}" for user in twice]
            assert (await world.send("GET", plane("shop") + LIST, *both))[0] >= 400
        for query in ("access_token", "token", "authorization"):
            attempts += 1
            target = f"{plane('shop')}{LIST}?{query}={world.tokens['ben']}"
            assert (await world.send("GET", target))[0] == 403

        assert state_of(world, "shop") == before
        assert attempts >= 200
        assert (await world.call("ben", "GET", "shop", LIST))[0] == 200
        assert (await world.call("ana", "GET", "demo", LIST))[0] == 200


@pytest.mark.parametrize(
    "header",
    ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-parent"],
)
async def test_a_request_in_another_s_name_is_forbidden_even_without_a_token(header: str) -> None:
    async with two_projects() as world:
        for token in ({}, {"authorization": f"Bearer {world.tokens['ana']}"}):
            request = HttpRequest("GET", "/version", headers={**token, header: "ben"})

            assert (await world.embedded.server.handle(request)).status == 403


async def test_the_revision_and_the_page_of_another_project_show_only_one_s_own() -> None:
    async with two_projects() as world:
        _, listed = await world.call("ben", "GET", "shop", f"{LIST}?limit=1")
        foreign = listed["metadata"]
        page = f"{LIST}?limit=5&continue={foreign['continue']}"
        watch = f"{LIST}?watch=true&timeoutSeconds=1&resourceVersion={foreign['resourceVersion']}"

        for path in (page, watch):
            target = plane("demo") + path
            _, answer = await world.send("GET", target, token=world.tokens["ana"])

            assert MARKER.encode() not in answer


VERBS = {"get": "GET", "list": "GET", "create": "POST", "patch": "PATCH", "delete": "DELETE"}
ALLOWED = {
    # resource -> the first role that may read it, and the first that may write it
    ("compute.datumapis.com", "workloads"): ("viewer", "editor"),
    ("compute.datumapis.com", "instances"): ("viewer", ""),
    ("compute.datumapis.com", "instances/log"): ("viewer", ""),
    ("compute.datumapis.com", "instances/exec"): ("", "editor"),
    ("compute.datumapis.com", "workloads/status"): ("viewer", ""),
    ("", "configmaps"): ("viewer", "editor"),
    ("", "secrets"): ("editor", "editor"),
    ("", "events"): ("viewer", ""),
    ("", "namespaces"): ("viewer", ""),
    ("networking.datumapis.com", "networks"): ("viewer", "editor"),
    ("networking.datumapis.com", "locationbindings"): ("viewer", ""),
    ("quota.miloapis.com", "resourcegrants"): ("viewer", "admin"),
    ("quota.miloapis.com", "allowancebuckets"): ("viewer", ""),
    ("services.miloapis.com", "serviceentitlements"): ("viewer", "admin"),
    ("services.miloapis.com", "serviceentitlements/status"): ("viewer", ""),
    ("apiextensions.k8s.io", "customresourcedefinitions"): ("viewer", ""),
    ("authorization.k8s.io", "subjectaccessreviews"): ("", ""),
}
ORDER = ("viewer", "editor", "admin")


@pytest.mark.parametrize(("of_group", "resource"), ALLOWED)
@pytest.mark.parametrize("role", ORDER)
def test_a_role_reads_and_writes_what_it_is_for(role: str, of_group: str, resource: str) -> None:
    reads, writes = ALLOWED[of_group, resource]
    rights = {
        verb for rule in ROLES[role] for verb in rule.verbs
        if (rule.group, rule.resource) == (of_group, resource)
    }  # fmt: skip

    assert ("get" in rights) == (bool(reads) and ORDER.index(role) >= ORDER.index(reads))
    assert ("create" in rights) == (bool(writes) and ORDER.index(role) >= ORDER.index(writes))
    is_stored = not resource.endswith("/exec")
    assert ("delete" in rights) == ("create" in rights and is_stored)


async def test_a_role_names_only_subresources_that_are_served() -> None:
    named = {each.resource for rules in ROLES.values() for each in rules if "/" in each.resource}
    async with two_projects() as world:
        _, groups = await world.call("ana", "GET", "demo", "/apis")
        served = {"instances/log", "instances/exec"}  # the platform's own, not in discovery
        for group in groups["groups"]:
            path = f"/apis/{group['preferredVersion']['groupVersion']}"
            _, found = await world.call("ana", "GET", "demo", path)
            served |= {each["name"] for each in found["resources"]}
    assert named <= served


async def test_a_viewer_reads_an_editor_writes_and_a_change_of_role_counts_at_once() -> None:
    async with two_projects() as world:
        body = config_map("new", "x")
        assert world.users.add("ana", "shop", "viewer") is None, "ana has a token already"

        assert (await world.call("ana", "GET", "shop", LIST))[0] == 200
        assert (await world.call("ana", "POST", "shop", LIST, body))[0] == 403
        world.users.add("ana", "shop", "editor")
        assert (await world.call("ana", "POST", "shop", LIST, body))[0] == 201
        assert (await world.call("ana", "POST", "demo", LIST, body))[0] == 201, "demo is kept"


async def test_roles_survive_a_restart_and_end_with_the_user() -> None:
    async with two_projects() as world:
        roles = Roles()
        again = LocalUsers(world.embedded.env, world.embedded.store, roles)
        again.restore()
        assert [(each.user, each.project, each.role) for each in again.all()] == [
            ("ana", "demo", "editor"),
            ("ben", "shop", "editor"),
            ("cy", "sho", "editor"),
            ("dot", "shop2", "editor"),
        ]

        assert world.users.remove("ana")

        assert (await world.call("ana", "GET", "demo", LIST))[0] == 401
        assert not world.users.remove("ana")
        assert not world.users.remove("admin"), "users of the platform are not people"


async def test_a_removed_user_sees_nothing_more_on_a_watch_that_is_open() -> None:
    async with two_projects() as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        lines = (
            f"GET {plane('shop')}{LIST}?watch=true HTTP/1.1",
            "Host: localhost",
            "Connection: close",
            f"Authorization: Bearer {world.tokens['ben']}",
        )
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        await reader.readuntil(b"web-2")
        world.users.add("eve", "shop", "editor")

        assert world.users.remove("ben")
        await world.send(
            "POST",
            plane("shop") + LIST,
            token=world.embedded.token(),
            body=json.dumps(config_map("later", "x")).encode(),
        )

        async with asyncio.timeout(20):
            assert b"later" not in await reader.read(), "the watch has ended"
        writer.close()


async def test_a_project_created_again_begins_without_members() -> None:
    async with two_projects() as world:
        await world.send("DELETE", f"{PROJECTS}/sho", token=world.embedded.token())
        assert (await world.call("cy", "GET", "sho", LIST))[0] == 403
        await world.embedded.create_project("sho")

        assert (await world.call("cy", "GET", "sho", LIST))[0] == 403
        restarted = LocalUsers(world.embedded.env, world.embedded.store, Roles())
        assert "cy" not in [each.user for each in restarted.all()]


@pytest.mark.parametrize(
    ("name", "project", "role", "message"),
    [
        ("Ana", "demo", "viewer", 'user "Ana": expected'),
        ("", "demo", "viewer", 'user "": expected'),
        ("a/b", "demo", "viewer", 'user "a/b": expected'),
        ("compute-management", "demo", "viewer", "names of the platform begin with"),
        ("local-admin", "demo", "viewer", "names of the platform begin with"),
        ("system", "demo", "viewer", "names of the platform begin with"),
        ("eve", "nosuch", "viewer", 'project "nosuch" does not exist'),
        ("eve", "demo", "owner", 'role "owner": expected one of viewer, editor, admin'),
    ],
)
async def test_an_impossible_user_is_refused(
    name: str, project: str, role: str, message: str
) -> None:
    async with two_projects() as world:
        with pytest.raises(UserRefused, match=message):
            world.users.add(name, project, role)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", {"name": "eve", "project": "demo", "role": "viewer"}, 201),
        ("POST", "", {"name": "eve", "project": "demo", "role": "owner"}, 422),
        ("POST", "", {"name": "eve", "project": "demo", "role": "viewer", "groups": []}, 422),
        ("POST", "", ["eve"], 422),
        ("GET", "", None, 200),
        ("DELETE", "/ana", None, 200),
        ("DELETE", "/nosuch", None, 404),
        ("DELETE", "", None, 404),
        ("PUT", "/ana", None, 404),
    ],
)
async def test_users_are_added_listed_and_removed_by_verbs_of_the_platform(
    method: str, path: str, body: Any, status: int
) -> None:
    async with two_projects() as world:
        env = world.embedded.env
        verbs = LocalVerbs(env, LocalSettings(), list, Partitions(), world.users)
        content = b"" if body is None else json.dumps(body).encode()

        answer = await verbs.handle(HttpRequest(method, USERS + path, body=content))

        assert answer.status == status
        if status == 201:
            world.tokens["eve"] = json.loads(answer.body)["token"]
            assert (await world.call("eve", "GET", "demo", LIST))[0] == 200
        if method == "GET":
            assert b"token" not in answer.body
