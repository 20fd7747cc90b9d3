"""Rights by role: on one plane or on a type of plane; requests and reviews agree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from datum_compute.apiserver.request.access import Attributes, PolicyRule, RequestUser
from datum_compute.apiserver.request.roles import Roles
from datum_compute.client.transport import HttpRequest
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.widgets import Caller

ROBOT = RequestUser("robot", ("system:authenticated",))
INSTANCES = "/apis/compute.datumapis.com/v1alpha/namespaces/default/instances"
REVIEWS = "/apis/authorization.k8s.io/v1"
READ = PolicyRule("compute.datumapis.com", "instances", ("get", "list"))
REPORT = PolicyRule("compute.datumapis.com", "instances/status", ("patch",))


def _roles() -> Roles:
    roles = Roles()
    roles.grant("robot", "cell/dfw", [READ, REPORT])
    roles.grant("robot", "project", [PolicyRule("", "namespaces", ("watch",))])
    return roles


def _asks(verb: str, plane: str, resource: str, group: str = "") -> Attributes:
    plural, _, subresource = resource.partition("/")
    return Attributes(verb, plane, group, plural, subresource, "default")


@asynccontextmanager
async def _robot(plane: str) -> AsyncIterator[Caller]:
    async with embedded_server(authorizer=_roles()) as embedded:
        embedded.token("robot", [])
        yield Caller(embedded, plane, "robot")


def test_a_right_is_a_verb_on_a_resource_of_a_group() -> None:
    roles, group = _roles(), "compute.datumapis.com"

    assert roles.allows(ROBOT, _asks("get", "cell/dfw", "instances", group))
    assert roles.allows(ROBOT, _asks("patch", "cell/dfw", "instances/status", group))
    assert not roles.allows(ROBOT, _asks("delete", "cell/dfw", "instances", group))
    assert not roles.allows(ROBOT, _asks("patch", "cell/dfw", "instances", group))
    assert not roles.allows(ROBOT, _asks("get", "cell/dfw", "instances/status", group))
    assert not roles.allows(ROBOT, _asks("get", "cell/dfw", "instances"))
    assert not roles.allows(ROBOT, _asks("get", "cell/dfw", "workloads", group))


def test_a_right_on_every_resource_is_limited_to_its_verbs() -> None:
    roles = Roles()
    roles.grant("robot", "project", [PolicyRule("*", "*", ("list", "delete"))])

    assert roles.allows(ROBOT, _asks("delete", "project/demo", "instances", READ.group))
    assert roles.allows(ROBOT, _asks("list", "project/demo", "secrets"))
    assert roles.allows(ROBOT, _asks("delete", "project/demo", "instances/status", READ.group))
    assert not roles.allows(ROBOT, _asks("get", "project/demo", "secrets"))
    assert not roles.allows(ROBOT, _asks("delete", "hub", "secrets"))


def test_a_right_applies_only_to_the_granted_planes() -> None:
    roles, group = _roles(), "compute.datumapis.com"

    assert not roles.allows(ROBOT, _asks("get", "cell/lhr", "instances", group))
    assert not roles.allows(ROBOT, _asks("get", "hub", "instances", group))
    for project in ("project/demo", "project/later"):
        assert roles.allows(ROBOT, _asks("watch", project, "namespaces"))
        assert not roles.allows(ROBOT, _asks("get", project, "instances", group))


def test_a_right_belongs_to_one_user() -> None:
    roles = _roles()
    other = RequestUser("other", ("system:authenticated", "robot"))

    assert not roles.allows(other, _asks("get", "cell/dfw", "instances", READ.group))
    assert roles.rules(RequestUser("other", ()), "cell/dfw") == ()


def test_a_later_grant_replaces_the_earlier_one() -> None:
    roles = _roles()
    roles.grant("robot", "cell/dfw", [REPORT])

    assert not roles.allows(ROBOT, _asks("get", "cell/dfw", "instances", READ.group))
    assert REPORT in roles.rules(ROBOT, "cell/dfw")
    assert READ not in roles.rules(ROBOT, "cell/dfw")


@pytest.mark.parametrize("path", ["/apis", "/api/v1", "/apis/compute.datumapis.com/v1alpha"])
async def test_only_authenticated_users_may_read_discovery(path: str) -> None:
    async with _robot("cell/dfw") as robot:
        served = await robot.send("GET", path)
        anonymous = await robot.embedded.server.handle(HttpRequest("GET", f"/clusters/dfw{path}"))

        assert served.status == 200
        assert anonymous.status == 403


async def test_a_forbidden_request_names_the_missing_right() -> None:
    async with _robot("cell/dfw") as robot:
        listed = await robot.call("GET", INSTANCES)
        code, refused = await robot.call("DELETE", f"{INSTANCES}/web-0")
        _, status = await robot.call("GET", f"{INSTANCES}/web-0/status")

    assert listed[0] == 200
    assert (code, refused["reason"], refused["code"]) == (403, "Forbidden", 403)
    assert refused["message"] == (
        'instances.compute.datumapis.com "web-0" is forbidden: User "robot" cannot delete'
        ' resource "instances" in API group "compute.datumapis.com" in the namespace "default"'
    )
    assert 'cannot get resource "instances/status" in API group' in status["message"]


def _question(verb: str, resource: str) -> dict[str, Any]:
    plural, _, subresource = resource.partition("/")
    about = {
        "verb": verb,
        "group": "compute.datumapis.com",
        "resource": plural,
        "subresource": subresource,
        "namespace": "default",
    }
    return {"spec": {"resourceAttributes": about}}


async def test_reviews_agree_with_requests() -> None:
    async with _robot("cell/dfw") as robot:
        path = f"{REVIEWS}/selfsubjectaccessreviews"
        _, may = await robot.call("POST", path, _question("list", "instances"))
        _, may_not = await robot.call("POST", path, _question("delete", "instances"))
        code, _ = await robot.call(
            "POST", f"{REVIEWS}/subjectaccessreviews", _question("list", "instances")
        )
        admin = Caller(robot.embedded, "cell/dfw")
        about = _question("list", "instances")
        about["spec"]["user"] = "robot"
        _, they = await admin.call("POST", f"{REVIEWS}/subjectaccessreviews", about)

    assert may["status"]["allowed"] is True
    assert may_not["status"]["allowed"] is False
    assert code == 403, "a review of others needs a grant"
    assert they["status"]["allowed"] is True


async def test_all_rights_of_a_user_are_listed() -> None:
    async with _robot("cell/dfw") as robot:
        path = f"{REVIEWS}/selfsubjectrulesreviews"
        code, answer = await robot.call("POST", path, {"spec": {"namespace": "default"}})
        _, admin = await Caller(robot.embedded, "cell/dfw").call(
            "POST", path, {"spec": {"namespace": "default"}}
        )
        refused, _ = await robot.call("POST", path, {"spec": {}})

    rules = answer["status"]["resourceRules"]
    group = ["compute.datumapis.com"]
    assert code == 201
    assert {"verbs": ["get", "list"], "apiGroups": group, "resources": ["instances"]} in rules
    assert {"verbs": ["patch"], "apiGroups": group, "resources": ["instances/status"]} in rules
    assert "/apis" in answer["status"]["nonResourceRules"][0]["nonResourceURLs"]
    assert answer["status"]["incomplete"] is False
    assert admin["status"]["resourceRules"] == [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    ]
    assert refused == 400


async def test_an_anonymous_caller_may_not_review_its_rights() -> None:
    async with _robot("cell/dfw") as robot:
        handle = robot.embedded.server.handle
        answer = await handle(
            HttpRequest("POST", f"{REVIEWS}/selfsubjectaccessreviews", body=b'{"spec":{}}')
        )

    assert answer.status == 403
    assert b'User \\"system:anonymous\\" cannot create resource' in answer.body
