"""Roles, bindings, impersonation, tokens of service accounts, and the reviews about them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.apiserver.request.access import Attributes
from datum_compute.apiserver.request.rbac import Rule
from datum_compute.client.transport import HttpRequest
from tests.support.apiserver.widgets import WIDGETS_PATH, Caller, widget, widget_server

RBAC = "/apis/rbac.authorization.k8s.io/v1"
IN_DEFAULT = f"{RBAC}/namespaces/default"
WIDGET_RULE = {
    "verbs": ["get", "list", "create"],
    "apiGroups": ["example.com"],
    "resources": ["widgets"],
}


@asynccontextmanager
async def people() -> AsyncIterator[tuple[Caller, Caller]]:
    """The administrator of a plane, and Bob, who has no right there."""
    async with widget_server() as admin:
        admin.embedded.token("bob", ["developers"])
        yield admin, Caller(admin.embedded, "cell/dfw", "bob")


def subject(kind: str, name: str, **more: str) -> dict[str, str]:
    return {"kind": kind, "name": name, **more}


async def grant(
    admin: Caller, rules: list[dict[str, Any]], *subjects: dict[str, str], name: str = "some"
) -> None:
    role = {"metadata": {"name": name}, "rules": rules}
    binding = {
        "metadata": {"name": name},
        "subjects": list(subjects),
        "roleRef": {"kind": "Role", "name": name},
    }
    for path, body in ((f"{IN_DEFAULT}/roles", role), (f"{IN_DEFAULT}/rolebindings", binding)):
        code, made = await admin.call("POST", path, body)
        assert code == 201, made


async def test_a_binding_gives_the_rights_of_its_role_until_it_is_deleted() -> None:
    async with people() as (admin, bob):
        assert (await bob.call("GET", WIDGETS_PATH))[0] == 403

        await grant(admin, [WIDGET_RULE], subject("User", "bob"))

        assert (await bob.call("GET", WIDGETS_PATH))[0] == 200
        assert (await bob.call("POST", WIDGETS_PATH, widget("one")))[0] == 201
        assert (await bob.call("DELETE", f"{WIDGETS_PATH}/one"))[0] == 403
        assert (await bob.call("GET", "/apis/example.com/v1/widgets"))[0] == 403
        assert (await bob.call("GET", "/api/v1/namespaces/default/secrets"))[0] == 403
        assert (await bob.call("GET", "/apis"))[0] == 200, "a member may read discovery"
        await admin.call("DELETE", f"{IN_DEFAULT}/rolebindings/some")
        assert (await bob.call("GET", WIDGETS_PATH))[0] == 403
        assert (await bob.call("GET", "/apis"))[0] == 403


async def test_a_changed_role_changes_the_rights_of_those_who_have_it() -> None:
    async with people() as (admin, bob):
        await grant(admin, [WIDGET_RULE], subject("Group", "developers"))
        assert (await bob.call("GET", WIDGETS_PATH))[0] == 200
        merge = {"content-type": "application/merge-patch+json"}

        await admin.call("PATCH", f"{IN_DEFAULT}/roles/some", {"rules": []}, headers=merge)

        assert (await bob.call("GET", WIDGETS_PATH))[0] == 403


async def test_a_cluster_role_holds_where_it_is_bound() -> None:
    async with people() as (admin, bob):
        paths = {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}
        role = {"metadata": {"name": "system:reader"}, "rules": [WIDGET_RULE, paths]}
        code, made = await admin.call("POST", f"{RBAC}/clusterroles", role)
        assert code == 201, made
        binding: dict[str, Any] = {
            "metadata": {"name": "b"},
            "subjects": [subject("User", "bob")],
            "roleRef": {"kind": "ClusterRole", "name": "system:reader"},
        }
        await admin.call("POST", f"{IN_DEFAULT}/rolebindings", binding)
        assert (await bob.call("GET", WIDGETS_PATH))[0] == 200
        assert (await bob.call("GET", "/apis/example.com/v1/widgets"))[0] == 403
        assert (await bob.send("GET", "/metrics")).status == 403

        code, made = await admin.call("POST", f"{RBAC}/clusterrolebindings", binding)

        assert code == 201, made
        assert made["subjects"] == [
            {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
        ]
        assert (await bob.call("GET", "/apis/example.com/v1/widgets"))[0] == 200
        assert (await bob.send("GET", "/metrics")).status == 404, "allowed, and not here"


async def test_roles_of_one_plane_say_nothing_about_another() -> None:
    async with people() as (admin, _):
        await grant(admin, [WIDGET_RULE], subject("User", "bob"))

        elsewhere = Caller(admin.embedded, "hub", "bob")

        assert (await elsewhere.call("GET", WIDGETS_PATH))[0] == 403


@pytest.mark.parametrize("verb", ["", "escalate", "bind"])
async def test_a_user_grants_no_more_than_it_has_unless_it_may(verb: str) -> None:
    async with people() as (admin, bob):
        manage = {
            "verbs": ["create", "update", "patch", "get"],
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "rolebindings"],
        }
        rules = [WIDGET_RULE, manage]
        if verb:
            rules.append({**manage, "verbs": [verb], "resources": ["roles"]})
        await grant(admin, rules, subject("User", "bob"))
        secrets = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
        more = {"metadata": {"name": "more"}, "rules": [secrets]}
        less = {"metadata": {"name": "less"}, "rules": [{**WIDGET_RULE, "verbs": ["get"]}]}

        code, refused = await bob.call("POST", f"{IN_DEFAULT}/roles", more)

        assert code == (201 if verb == "escalate" else 403), refused
        if verb != "escalate":
            assert 'Resources:["secrets"], Verbs:["get"]' in refused["message"]
            await admin.call("POST", f"{IN_DEFAULT}/roles", more)
        code, _ = await bob.call("POST", f"{IN_DEFAULT}/roles", less)
        assert code == 201, "what he has himself"
        binding = {
            "metadata": {"name": "more"},
            "subjects": [subject("User", "bob")],
            "roleRef": {"kind": "Role", "name": "more"},
        }
        code, refused = await bob.call("POST", f"{IN_DEFAULT}/rolebindings", binding)
        assert code == (201 if verb == "bind" else 403), refused
        merge = {"content-type": "application/merge-patch+json"}
        wider = {"rules": [WIDGET_RULE, secrets]}
        code, _ = await bob.call("PATCH", f"{IN_DEFAULT}/roles/less", wider, headers=merge)
        assert code == (200 if verb else 403), "after the binding he has it himself"


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("roles", {"rules": [{"apiGroups": [""], "resources": ["a"]}]}, "rules[0].verbs"),
        ("roles", {"rules": [{"verbs": ["get"], "resources": ["a"]}]}, "rules[0].apiGroups"),
        ("roles", {"rules": [{"verbs": ["get"], "apiGroups": [""]}]}, "rules[0].resources"),
        (
            "roles",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
            "rules[0].nonResourceURLs",
        ),
        ("rolebindings", {"roleRef": {"kind": "Role"}}, "roleRef.name"),
        ("rolebindings", {"roleRef": {"kind": "Odd", "name": "x"}}, "roleRef.kind"),
        ("rolebindings", {"roleRef": {"kind": "Role", "name": "a/b"}}, "roleRef.name"),
        (
            "rolebindings",
            {
                "roleRef": {"kind": "Role", "name": "x"},
                "subjects": [{"kind": "ServiceAccount", "name": "A b", "namespace": "n"}],
            },
            "subjects[0].name",
        ),
        (
            "rolebindings",
            {"roleRef": {"kind": "Role", "name": "x"}, "subjects": [subject("Odd", "x")]},
            "subjects[0].kind",
        ),
    ],
)
async def test_an_impossible_role_or_binding_is_refused(
    kind: str, body: dict[str, Any], field: str
) -> None:
    async with people() as (admin, _):
        body = {"metadata": {"name": "x"}, **body}

        code, refused = await admin.call("POST", f"{IN_DEFAULT}/{kind}", body)

        assert code == 422, refused
        assert [cause["field"] for cause in refused["details"]["causes"]] == [field]


async def test_the_role_of_a_binding_cannot_be_changed() -> None:
    async with people() as (admin, _):
        await grant(admin, [WIDGET_RULE], subject("User", "bob"))
        merge = {"content-type": "application/merge-patch+json"}
        change = {"roleRef": {"name": "other"}}

        path = f"{IN_DEFAULT}/rolebindings/some"
        code, refused = await admin.call("PATCH", path, change, headers=merge)

        assert (code, refused["details"]["causes"][0]["field"]) == (422, "roleRef")


async def test_a_service_account_acts_by_its_token_on_its_plane_until_it_expires() -> None:
    async with widget_server() as admin:
        path = "/api/v1/namespaces/default/serviceaccounts"
        await admin.call("POST", path, {"metadata": {"name": "robot"}})
        account = subject("ServiceAccount", "robot", namespace="default")
        await grant(admin, [WIDGET_RULE], account)
        code, made = await admin.call("POST", f"{path}/robot/token", {"spec": {}})
        assert code == 201, made
        assert made["spec"]["expirationSeconds"] == 3600
        own = {"authorization": f"Bearer {made['status']['token']}"}

        assert (await admin.call("GET", WIDGETS_PATH, headers=own))[0] == 200
        _, me = await admin.call(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"a": 1}, headers=own
        )
        assert me["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
        assert "system:serviceaccounts:default" in me["status"]["userInfo"]["groups"]
        elsewhere = HttpRequest("GET", f"/clusters/hub{WIDGETS_PATH}", headers=own)
        assert (await admin.embedded.server.handle(elsewhere)).status == 401
        tampered = {"authorization": own["authorization"][:-2] + "xx"}
        assert (await admin.call("GET", WIDGETS_PATH, headers=tampered))[0] == 401
        await asyncio.sleep(3600)
        assert (await admin.call("GET", WIDGETS_PATH, headers=own))[0] == 401


async def test_a_token_ends_with_its_service_account() -> None:
    async with people() as (admin, _):
        path = "/api/v1/namespaces/default/serviceaccounts"
        await admin.call("POST", path, {"metadata": {"name": "robot"}})
        _, made = await admin.call("POST", f"{path}/robot/token", {"spec": {}})
        own = {"authorization": f"Bearer {made['status']['token']}"}
        assert (await admin.call("GET", WIDGETS_PATH, headers=own))[0] == 403

        await admin.call("DELETE", f"{path}/robot")
        await admin.call("POST", path, {"metadata": {"name": "robot"}})

        assert (await admin.call("GET", WIDGETS_PATH, headers=own))[0] == 401


@pytest.mark.parametrize("seconds", [1, 599, 2**32 + 1])
async def test_a_token_lives_at_least_ten_minutes(seconds: int) -> None:
    async with people() as (admin, bob):
        path = "/api/v1/namespaces/default/serviceaccounts"
        await admin.call("POST", path, {"metadata": {"name": "robot"}})
        body = {"spec": {"expirationSeconds": seconds}}

        code, refused = await admin.call("POST", f"{path}/robot/token", body)

        assert (code, refused["details"]["causes"][0]["field"]) == (422, "spec.expirationSeconds")
        assert (await admin.call("POST", f"{path}/none/token", {"spec": {}}))[0] == 404
        assert (await admin.call("GET", f"{path}/robot/token"))[0] == 405
        assert (await bob.call("POST", f"{path}/robot/token", {"spec": {}}))[0] == 403


async def test_a_request_in_the_name_of_another_has_that_user_s_rights() -> None:
    async with people() as (admin, _):
        await grant(admin, [WIDGET_RULE], subject("User", "bob"))
        acting = {"impersonate-user": "bob", "impersonate-group": "a\nb", "impersonate-uid": "7"}
        acting["impersonate-extra-example.com%2fscope"] = "x\ny"

        assert (await admin.call("GET", WIDGETS_PATH, headers=acting))[0] == 200
        code, refused = await admin.call(
            "GET", "/api/v1/namespaces/default/secrets", headers=acting
        )

        assert (code, 'User "bob" cannot list' in refused["message"]) == (403, True)
        _, me = await admin.call(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"a": 1}, headers=acting
        )
        assert me["status"]["userInfo"] == {
            "username": "bob",
            "groups": ["a", "b", "system:authenticated"],
            "uid": "7",
            "extra": {"example.com/scope": ["x", "y"]},
        }
        without = {"impersonate-group": "a"}
        assert (await admin.call("GET", WIDGETS_PATH, headers=without))[0] == 400


@pytest.mark.parametrize(
    ("header", "value", "resource"),
    [
        ("impersonate-user", "admin", "users"),
        ("impersonate-user", "system:serviceaccount:default:robot", "serviceaccounts"),
        ("impersonate-group", "system:masters", "groups"),
        ("impersonate-uid", "1", "uids"),
        ("impersonate-extra-scope", "x", "userextras/scope"),
    ],
)
async def test_impersonation_needs_a_right_for_each_part(
    header: str, value: str, resource: str
) -> None:
    async with people() as (admin, bob):
        await grant(admin, [WIDGET_RULE], subject("User", "bob"))

        code, refused = await bob.call("GET", WIDGETS_PATH, headers={header: value})

        assert (code, refused["reason"]) == (403, "Forbidden")
        assert f'cannot impersonate resource "{resource}"' in refused["message"]


async def test_a_token_is_reviewed() -> None:
    async with people() as (admin, bob):
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        token = admin.embedded.token("bob")

        code, known = await admin.call("POST", path, {"spec": {"token": token}})
        _, unknown = await admin.call("POST", path, {"spec": {"token": "x"}})

        assert (code, known["status"]["authenticated"]) == (201, True)
        assert known["status"]["user"]["username"] == "bob"
        assert not unknown["status"].get("authenticated")
        assert (await bob.call("POST", path, {"spec": {"token": token}}))[0] == 403


async def test_a_local_review_is_about_its_namespace() -> None:
    async with people() as (admin, _):
        await grant(admin, [WIDGET_RULE], subject("User", "bob"))
        path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"

        def about(namespace: str, verb: str) -> dict[str, Any]:
            asked = {"verb": verb, "group": "example.com", "resource": "widgets"}
            return {
                "spec": {"user": "bob", "resourceAttributes": {**asked, "namespace": namespace}}
            }

        code, may = await admin.call("POST", path, about("default", "get"))
        _, may_not = await admin.call("POST", path, about("default", "delete"))
        elsewhere, _ = await admin.call("POST", path, about("other", "get"))

        assert (code, may["status"]["allowed"]) == (201, True)
        assert (may_not["status"]["allowed"], elsewhere) == (False, 422)


async def test_the_rules_of_a_namespace_are_listed() -> None:
    async with people() as (admin, bob):
        await grant(admin, [WIDGET_RULE], subject("User", "bob"))
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"

        _, here = await bob.call("POST", path, {"spec": {"namespace": "default"}})
        _, there = await bob.call("POST", path, {"spec": {"namespace": "other"}})

        assert WIDGET_RULE in here["status"]["resourceRules"]
        assert WIDGET_RULE not in there["status"]["resourceRules"]


async def test_reviews_are_in_discovery() -> None:
    async with people() as (admin, _):
        _, listed = await admin.call("GET", "/apis/authorization.k8s.io/v1")

        found = {each["name"]: each["namespaced"] for each in listed["resources"]}
        assert found["selfsubjectaccessreviews"] is False
        assert found["localsubjectaccessreviews"] is True
        _, core = await admin.call("GET", "/apis/authentication.k8s.io/v1")
        assert {"tokenreviews", "selfsubjectreviews"} == {e["name"] for e in core["resources"]}


TEXTS = st.sampled_from(["*", "a", "b", "a/s", "*/s"])
SOME = st.lists(TEXTS, min_size=1, max_size=3).map(tuple)
RULES = st.builds(Rule, SOME, SOME, SOME, st.lists(st.sampled_from("xy"), max_size=2).map(tuple))


@given(held=RULES, given=RULES)
def test_what_a_covered_rule_allows_its_holder_may_do(held: Rule, given: Rule) -> None:
    if not all(held.covers(part) for part in given.parts()):
        return
    for verb in ("a", "b", "c"):
        for group in ("a", "c"):
            for resource, sub in (("a", ""), ("a", "s"), ("c", "s"), ("c", "")):
                for name in ("x", "y", "z", ""):
                    asked = Attributes(verb, "hub", group, resource, sub, "default", name)
                    assert held.allows(asked) or not given.allows(asked)


async def test_a_role_of_a_bad_shape_costs_no_time() -> None:
    async with people() as (admin, bob):
        manage = {
            "verbs": ["create"],
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles"],
        }
        await grant(admin, [manage], subject("User", "bob"))
        many = [f"v{index}" for index in range(1000)]
        rule = {"verbs": many, "apiGroups": many, "resources": many}

        code, refused = await bob.call(
            "POST", f"{IN_DEFAULT}/roles", {"metadata": {"name": "x"}, "rules": [rule]}
        )
        large, _ = await admin.call(
            "POST", f"{IN_DEFAULT}/roles", {"metadata": {"name": "x"}, "rules": [rule] * 20}
        )

        assert (code, "10000 permissions at a time" in refused["message"]) == (403, True)
        assert large == 413


@pytest.mark.parametrize("rules", [{}, [1], [{"verbs": 1}], [{"verbs": [[]]}], "x"])
async def test_a_role_of_other_types_is_a_bad_request(rules: Any) -> None:
    async with people() as (admin, bob):
        manage = {
            "verbs": ["create"],
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "rolebindings"],
        }
        await grant(admin, [manage], subject("User", "bob"))
        role = {"metadata": {"name": "x"}, "rules": rules}
        binding = {"metadata": {"name": "x"}, "roleRef": rules, "subjects": rules}

        for caller in (admin, bob):
            assert (await caller.call("POST", f"{IN_DEFAULT}/roles", role))[0] == 400
            code, refused = await caller.call("POST", f"{IN_DEFAULT}/rolebindings", binding)
            assert code in (400, 422), refused


@given(rule=RULES)
def test_the_size_of_a_rule_is_the_number_of_its_parts(rule: Rule) -> None:
    assert rule.size == len(list(rule.parts()))
