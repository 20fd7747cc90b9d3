"""Webhooks that are configured by objects review the writes of other kinds."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from datum_compute.apiserver.kinds.webhook_configurations import set_defaults
from datum_compute.apiserver.request import webhooks
from datum_compute.apiserver.request.access import CONTROLLERS, MASTERS
from datum_compute.env import SystemEnvironment
from datum_compute.testing.server import embedded_server
from tests.support.apiserver.loop_meter import LoopMeter
from tests.support.apiserver.webhook_server import WebhookServer, webhook_server
from tests.support.apiserver.widgets import WIDGET_CRD, WIDGETS_PATH, Caller, widget

pytestmark = pytest.mark.realtime

GROUP = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
BAD = {"key": "a", "operator": "x"}


async def allow(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


async def deny(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": "not today", "code": 403}}


def patch(*operations: dict[str, Any], **more: Any) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded, **more}


def hook(server: WebhookServer, path: str, **more: Any) -> dict[str, Any]:
    rule = {
        "operations": ["*"],
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "resources": ["widgets"],
    }
    return {
        "name": f"{path.strip('/')}.example.com",
        "clientConfig": server.config(path),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "rules": [rule],
        **more,
    }


@asynccontextmanager
async def stage(directory: Path) -> AsyncIterator[tuple[Caller, WebhookServer]]:
    async with (
        webhook_server(directory) as server,
        embedded_server(
            SystemEnvironment(), crds_for=lambda _: [], cells=("dfw",), projects=()
        ) as embedded,
    ):
        caller = Caller(embedded, "cell/dfw")
        assert (await caller.call("POST", DEFINITIONS, WIDGET_CRD))[0] == 201
        yield caller, server


async def configure(caller: Caller, path: str, *hooks: dict[str, Any], name: str = "all") -> None:
    kind = "MutatingWebhookConfiguration" if path == MUTATING else "ValidatingWebhookConfiguration"
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": list(hooks),
    }
    code, answer = await caller.call("POST", path, body)
    assert code == 201, answer


async def test_a_webhook_denies_and_its_review_says_what_is_written(tmp_path: Path) -> None:
    async with stage(tmp_path) as (caller, server):
        server.answers["/deny"] = deny
        await configure(caller, VALIDATING, hook(server, "/deny"))

        code, answer = await caller.call("POST", WIDGETS_PATH, widget("one", {"size": 2}))

        assert code == 403
        assert answer["message"] == (
            'admission webhook "deny.example.com" denied the request: not today'
        )
        (asked,) = server.asked
        assert asked["path"] == "/deny?timeout=5s"
        assert asked["operation"] == "CREATE"
        assert asked["object"]["spec"] == {"size": 2}
        assert asked["oldObject"] is None
        assert asked["kind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
        assert asked["userInfo"]["username"] == "admin"
        assert "subResource" not in asked  # kopf tells an empty one from none
        assert not await caller.exists("one")


async def test_a_changed_configuration_takes_effect_and_a_deleted_one_leaves_no_memory(
    tmp_path: Path,
) -> None:
    def decoded() -> int:
        return sum(
            isinstance(each, dict) and each.get("name") == "deny.example.com"
            for each in gc.get_objects()
        )

    async with stage(tmp_path) as (caller, server):
        server.answers["/deny"] = deny
        await configure(caller, VALIDATING, hook(server, "/deny"))
        assert (await caller.call("POST", WIDGETS_PATH, widget("one")))[0] == 403
        stored = (await caller.call("GET", f"{VALIDATING}/all"))[1]
        stored["webhooks"][0]["rules"][0]["operations"] = ["DELETE"]
        assert (await caller.call("PUT", f"{VALIDATING}/all", stored))[0] == 200
        assert (await caller.call("POST", WIDGETS_PATH, widget("one")))[0] == 201
        assert (await caller.call("DELETE", f"{WIDGETS_PATH}/one"))[0] == 403
        del stored
        assert decoded()

        assert (await caller.call("DELETE", f"{VALIDATING}/all"))[0] == 200
        assert (await caller.call("DELETE", f"{WIDGETS_PATH}/one"))[0] == 200
        gc.collect()
        assert not decoded()


async def test_what_a_mutating_webhook_changes_is_defaulted_validated_and_stored(
    tmp_path: Path,
) -> None:
    async def repaint(request: dict[str, Any]) -> dict[str, Any]:
        change = {"op": "replace", "path": "/spec", "value": {"color": "red"}}
        return patch(change, warnings=["repainted"])

    async def spoil(request: dict[str, Any]) -> dict[str, Any]:
        return patch({"op": "replace", "path": "/spec/size", "value": "x"})

    async with stage(tmp_path) as (caller, server):
        server.answers |= {"/repaint": repaint, "/check": allow, "/spoil": spoil}
        await configure(caller, MUTATING, hook(server, "/repaint"))
        await configure(caller, VALIDATING, hook(server, "/check"))

        response = await caller.send("POST", WIDGETS_PATH, widget("one", {"size": 5}))

        assert response.status == 201
        assert response.headers["warning"] == '299 - "repainted"'
        assert (await caller.get("one"))["spec"] == {"color": "red", "size": 1}
        assert server.asked[-1]["object"]["spec"] == {"color": "red", "size": 1}
        await configure(caller, MUTATING, hook(server, "/spoil"), name="zz")
        assert (await caller.call("POST", WIDGETS_PATH, widget("two")))[0] == 422


async def test_a_webhook_that_asks_for_it_sees_what_a_later_one_changes(tmp_path: Path) -> None:
    async def count(request: dict[str, Any]) -> dict[str, Any]:
        tags = request["object"]["spec"].get("tags", [])
        return patch({"op": "add", "path": "/spec/tags", "value": [*tags, "first"]})

    async def color(request: dict[str, Any]) -> dict[str, Any]:
        return patch({"op": "add", "path": "/spec/color", "value": "red"})

    async with stage(tmp_path) as (caller, server):
        server.answers |= {"/count": count, "/color": color}
        again = hook(server, "/count", reinvocationPolicy="IfNeeded")
        await configure(caller, MUTATING, again, hook(server, "/color"))

        await caller.create("one")

        assert [one["path"].partition("?")[0] for one in server.asked] == [
            "/count",
            "/color",
            "/count",
        ]
        spec = (await caller.get("one"))["spec"]
        assert spec == {"size": 1, "tags": ["first", "first"], "color": "red"}


async def test_updates_and_deletes_are_reviewed_with_the_old_object(tmp_path: Path) -> None:
    async def keep(request: dict[str, Any]) -> dict[str, Any]:
        return await (deny if request["operation"] == "DELETE" else allow)(request)

    async with stage(tmp_path) as (caller, server):
        server.answers["/keep"] = keep
        await configure(caller, VALIDATING, hook(server, "/keep"))
        await caller.create("one", {"size": 1})

        assert (await caller.patch("one", {"spec": {"size": 2}}))[0] == 200
        assert server.asked[-1]["oldObject"]["spec"]["size"] == 1
        assert (await caller.patch("one", {"status": {"ready": True}}, "status"))[0] == 200
        assert len(server.asked) == 2  # the rule names no subresource
        assert (await caller.delete("one"))[0] == 403
        assert (await caller.call("DELETE", WIDGETS_PATH))[0] == 403
        assert server.asked[-1]["object"] is None
        assert await caller.exists("one")


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, True),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, True),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, False),
        ({"matchConditions": [{"name": "c", "expression": "object.spec.size > 1"}]}, True),
        ({"matchConditions": [{"name": "c", "expression": "object.spec.size > 5"}]}, False),
        (
            {"matchConditions": [{"name": "c", "expression": "request.operation == 'UPDATE'"}]},
            False,
        ),
    ],
)
async def test_only_what_is_selected_is_reviewed(
    tmp_path: Path, more: dict[str, Any], asked: bool
) -> None:
    async with stage(tmp_path) as (caller, server):
        server.answers["/deny"] = deny
        await configure(caller, VALIDATING, hook(server, "/deny", **more))

        body = widget("one", {"size": 2}, labels={"a": "b"})
        code, _ = await caller.call("POST", WIDGETS_PATH, body)

        assert code == (403 if asked else 201)


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        ({"operations": ["UPDATE"]}, False),
        ({"apiGroups": ["*"]}, True),
        ({"apiGroups": [""]}, False),
        ({"apiVersions": ["v2"]}, False),
        ({"resources": ["*"]}, True),
        ({"resources": ["widgets/*"]}, True),
        ({"resources": ["widgets/status"]}, False),
        ({"resources": ["*/*"]}, True),
        ({"scope": "Cluster"}, False),
        ({"scope": "Namespaced"}, True),
    ],
)
async def test_rules_choose_by_operation_group_version_resource_and_scope(
    tmp_path: Path, changed: dict[str, Any], asked: bool
) -> None:
    async with stage(tmp_path) as (caller, server):
        server.answers["/deny"] = deny
        one = hook(server, "/deny")
        one["rules"][0] |= changed
        await configure(caller, VALIDATING, one)

        code, _ = await caller.call("POST", WIDGETS_PATH, widget("one"))

        assert code == (403 if asked else 201)


async def test_a_webhook_that_fails_refuses_or_is_left_out(tmp_path: Path) -> None:
    async def close(request: dict[str, Any]) -> None:
        return None

    async with stage(tmp_path) as (caller, server):
        server.answers["/close"] = close
        await configure(caller, VALIDATING, hook(server, "/close"))
        code, answer = await caller.call("POST", WIDGETS_PATH, widget("one"))
        assert (code, answer["reason"]) == (500, "InternalError")
        assert answer["message"].startswith(
            'Internal error occurred: failed calling webhook "close.example.com": failed to call'
            f' webhook: Post "{server.url}/close?timeout=5s": '
        )
        one = {"webhooks": [hook(server, "/close", failurePolicy="Ignore")]}
        headers = {"content-type": "application/merge-patch+json"}
        assert (await caller.call("PATCH", f"{VALIDATING}/all", one, headers=headers))[0] == 200
        response = await caller.send("POST", WIDGETS_PATH, widget("one"))
        assert response.status == 201
        assert "failing open" in response.headers["warning"]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"allowed": True, "patchType": "JSONPatch", "patch": "!"}, "base64"),
        (patch(*[{"op": "test", "path": "/kind", "value": ""}] * 5_000), "10000 values"),
        ({"allowed": True, "more": "x" * 3_200_000}, "more than 3145728 bytes"),
        ({"allowed": "perhaps"}, "no boolean"),
    ],
)
async def test_an_answer_that_cannot_be_followed_is_a_failure_of_the_webhook(
    tmp_path: Path, answer: dict[str, Any], why: str, policy: str
) -> None:
    async def say(request: dict[str, Any]) -> dict[str, Any]:
        return answer

    async with stage(tmp_path) as (caller, server):
        server.answers["/say"] = say
        await configure(caller, MUTATING, hook(server, "/say", failurePolicy=policy))

        response = await caller.send("POST", WIDGETS_PATH, widget("one"))

        assert response.status == (500 if policy == "Fail" else 201)
        warned = response.body.decode() if policy == "Fail" else response.headers["warning"]
        assert why in warned
        assert await caller.exists("one") is (policy == "Ignore")


async def test_an_object_that_webhooks_make_too_large_is_refused(tmp_path: Path) -> None:
    async def grow(request: dict[str, Any]) -> dict[str, Any]:
        more = {"op": "add", "path": f"/spec/more{len(server.asked)}", "value": ["x"] * 4_000}
        return patch(more)

    async with stage(tmp_path) as (caller, server):
        server.answers["/grow"] = grow
        names = (f"{letter}.example.com" for letter in "abc")
        await configure(caller, MUTATING, *(hook(server, "/grow", name=one) for one in names))

        code, answer = await caller.call("POST", WIDGETS_PATH, widget("one"))

        assert (code, answer["reason"]) == (400, "BadRequest")
        assert "more than 10000 values" in answer["message"]
        assert not await caller.exists("one")


@pytest.mark.parametrize(
    ("field", "method"), [("namespace", "POST"), ("namespace", "PATCH"), ("name", "PATCH")]
)
async def test_a_webhook_cannot_send_an_object_elsewhere(
    tmp_path: Path, field: str, method: str
) -> None:
    async def move(request: dict[str, Any]) -> dict[str, Any]:
        return patch({"op": "add", "path": f"/metadata/{field}", "value": "other"})

    async with stage(tmp_path) as (caller, server):
        other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        assert (await caller.call("POST", "/api/v1/namespaces", other))[0] == 201
        server.answers["/move"] = move
        await configure(caller, MUTATING, hook(server, "/move"))
        path = WIDGETS_PATH if method == "POST" else f"{WIDGETS_PATH}/one"
        headers = {"content-type": "application/apply-patch+yaml"} if method == "PATCH" else {}

        code, answer = await caller.call(
            method, path, widget("one"), headers=headers, query={"fieldManager": "a"}
        )

        assert (code, answer["reason"]) == (400, "BadRequest")
        assert "does not match" in answer["message"]
        _, found = await caller.call("GET", "/apis/example.com/v1/widgets")
        assert found["items"] == []


async def test_the_match_conditions_of_all_webhooks_share_a_budget(tmp_path: Path) -> None:
    slow = "object.spec.tags.all(a, object.spec.tags.all(b, object.spec.tags.all(c, a != b + c)))"
    conditions = [{"name": "c", "expression": slow}]
    async with stage(tmp_path) as (caller, server):
        hooks = [
            hook(server, "/ask", name=f"w{number}.example.com", matchConditions=conditions)
            | {"failurePolicy": "Ignore"}
            for number in range(20)
        ]
        await configure(caller, VALIDATING, *hooks)
        meter = LoopMeter()

        body = widget("one", {"tags": ["x"] * 500})
        response = await meter.measure(caller.send("POST", WIDGETS_PATH, body))

        assert response.status == 201
        assert meter.longest_seconds < 0.25
        assert server.asked == []


async def test_webhooks_of_a_delete_have_a_time_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async with stage(tmp_path) as (caller, server):
        server.answers["/never"] = never
        await caller.create("one")
        await configure(caller, VALIDATING, hook(server, "/never"))
        monkeypatch.setattr(webhooks, "TOTAL_SECONDS", 0.1)

        code, answer = await caller.delete("one")

        assert (code, answer["reason"]) == (504, "Timeout")
        assert await caller.exists("one")


async def test_others_are_served_while_a_webhook_takes_its_time(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def slow(request: dict[str, Any]) -> dict[str, Any]:
        await release.wait()
        return {"allowed": True}

    async with stage(tmp_path) as (caller, server):
        server.answers["/slow"] = slow
        await configure(caller, VALIDATING, hook(server, "/slow"))
        waiting = asyncio.create_task(caller.send("POST", WIDGETS_PATH, widget("one")))
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}

        assert (await caller.call("POST", CONFIG_MAPS, body))[0] == 201
        assert not waiting.done()
        release.set()
        assert (await waiting).status == 201


async def test_a_configuration_locks_neither_the_platform_nor_itself_out(tmp_path: Path) -> None:
    async with stage(tmp_path) as (caller, server):
        server.answers["/deny"] = deny
        everything = hook(server, "/deny")
        everything["rules"][0] |= {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
        await configure(caller, VALIDATING, everything)

        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
        assert (await caller.call("POST", "/api/v1/namespaces", namespace))[0] == 201
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
        assert (await caller.call("POST", CONFIG_MAPS, body))[0] == 403
        caller.embedded.token("controller", groups=(MASTERS, CONTROLLERS))
        controller = Caller(caller.embedded, "cell/dfw", "controller")
        assert (await controller.call("POST", CONFIG_MAPS, body))[0] == 201
        assert (await caller.call("DELETE", f"{VALIDATING}/all"))[0] == 200


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"name": "short"}, "webhooks[0].name", "three segments"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects", "Unsupported value"),
        ({"sideEffects": None}, "webhooks[0].sideEffects", "must specify one of None"),
        ({"admissionReviewVersions": ["v1beta1"]}, "webhooks[0].admissionReviewVersions", "v1"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds", "between 1 and 30"),
        ({"failurePolicy": "Maybe"}, "webhooks[0].failurePolicy", "Unsupported value"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig", "exactly one of"),
        (
            {"clientConfig": {"service": {"name": "s", "namespace": "n"}}},
            "webhooks[0].clientConfig.service",
            "there are no Services here",
        ),
        ({"clientConfig": {"url": "http://a"}}, "webhooks[0].clientConfig.url", "'https'"),
        ({"clientConfig": {"url": "https://a?b=c"}}, "webhooks[0].clientConfig.url", "query"),
        ({"rules": [{}]}, "webhooks[0].rules[0].operations", "Required"),
        (
            {"matchConditions": [{"name": "c", "expression": "object.("}]},
            "webhooks[0].matchConditions[0].expression",
            "compilation failed",
        ),
        ({"objectSelector": {"matchExpressions": [BAD]}}, "webhooks[0].objectSelector", ""),
        ({"rules": 7}, "webhooks[0]", "wrong types"),
        (
            {"matchConditions": [{"name": "c", "expression": "true"}] * 65},
            "webhooks[0].matchConditions",
            "at most 64 items",
        ),
        ({"rules": [{"resources": ["x" * 200_000]}]}, "webhooks", "more than 131072 bytes"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_followed_is_refused_at_its_field(
    changed: dict[str, Any], field: str, words: str
) -> None:
    server = WebhookServer("https://127.0.0.1:1", "")
    obj = {"kind": "MutatingWebhookConfiguration", "webhooks": [{**hook(server, "/a"), **changed}]}

    found = [str(one) for one in set_defaults(obj) if one.path == field]

    assert any(words in one for one in found), set_defaults(obj)


def test_a_sound_configuration_gets_its_defaults() -> None:
    server = WebhookServer("https://127.0.0.1:1", "")
    one = hook(server, "/a.b")
    del one["timeoutSeconds"]
    obj: dict[str, Any] = {"kind": "MutatingWebhookConfiguration", "webhooks": [one]}

    assert set_defaults(obj) == []
    assert one["timeoutSeconds"] == 10
    assert one["reinvocationPolicy"] == "Never"
    assert (one["failurePolicy"], one["matchPolicy"]) == ("Fail", "Equivalent")
    assert one["rules"][0]["scope"] == "*"
    assert one["namespaceSelector"] == {}
