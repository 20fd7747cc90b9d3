"""The request that each call of the client sends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from datum_compute.api.meta import Object
from datum_compute.api.scheme import Resource
from datum_compute.client import errors
from datum_compute.client.protocol import json_patch, merge
from tests.support.client.scripted_server import REALMS, WIDGET, WIDGETS, ScriptedServer, answer

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def decoded(body: bytes) -> Any:
    return msgspec.json.decode(body)


async def test_a_get_names_the_object_and_the_caller() -> None:
    toy = ScriptedServer(answer(WIDGET))

    widget = await toy.client(user_agent="toy/1").get(WIDGETS, "one", "default")

    assert widget.name == "one"
    assert toy.only.method == "GET"
    assert toy.only.path == "/apis/toys.example.com/v1/namespaces/default/widgets/one"
    assert toy.only.query == ()
    assert toy.only.headers == {
        "accept": "application/json",
        "user-agent": "toy/1",
        "authorization": "Bearer secret",
    }


async def test_requests_are_sent_below_the_prefix_of_the_plane() -> None:
    toy = ScriptedServer(answer(WIDGET))

    await toy.client(prefix="/clusters/hub/").get(REALMS, "one")

    assert toy.only.path == "/clusters/hub/apis/toys.example.com/v1/realms/one"


async def test_the_token_is_read_for_every_request() -> None:
    tokens = iter(["first", "second"])
    toy = ScriptedServer(answer(WIDGET))
    client = toy.client(token=lambda: next(tokens))

    await client.get(REALMS, "one")
    await client.get(REALMS, "one")

    assert [r.headers["authorization"] for r in toy.requests] == ["Bearer first", "Bearer second"]


async def test_without_a_token_no_credential_is_sent() -> None:
    toy = ScriptedServer(answer(WIDGET))

    await toy.client(token="").get(REALMS, "one")

    assert "authorization" not in toy.only.headers


async def test_a_list_sends_only_the_options_that_were_given() -> None:
    toy = ScriptedServer(answer({"kind": "ConfigMapList", "apiVersion": "v1", "items": []}))

    await toy.client().list(
        CONFIG_MAPS,
        "default",
        label_selector="a=b",
        field_selector="metadata.name=x",
        limit=10,
        continue_token="next",
    )

    assert toy.only.path == "/api/v1/namespaces/default/configmaps"
    assert dict(toy.only.query) == {
        "labelSelector": "a=b",
        "fieldSelector": "metadata.name=x",
        "limit": "10",
        "continue": "next",
    }


async def test_items_of_a_list_have_their_kind() -> None:
    page = {
        "apiVersion": "v1",
        "kind": "ConfigMapList",
        "metadata": {"resourceVersion": "9", "continue": "more", "remainingItemCount": 3},
        "items": [{"metadata": {"name": "a"}}],
    }

    listed = await ScriptedServer(answer(page)).client().list(CONFIG_MAPS)

    assert [(item.kind, item.api_version, item.name) for item in listed.items] == [
        ("ConfigMap", "v1", "a")
    ]
    assert (listed.resource_version, listed.continue_token, listed.remaining) == ("9", "more", 3)


async def test_a_create_fills_in_the_kind_and_names_the_field_manager() -> None:
    toy = ScriptedServer(answer(WIDGET, 201))

    await toy.client(field_manager="me").create(
        WIDGETS, {"metadata": {"name": "one"}, "spec": msgspec.Raw(b'{"size":3}')}, "default"
    )

    assert toy.only.path == "/apis/toys.example.com/v1/namespaces/default/widgets"
    assert toy.only.query == (("fieldManager", "me"),)
    assert toy.only.headers["content-type"] == "application/json"
    assert decoded(toy.only.body) == {
        "apiVersion": "toys.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "one"},
        "spec": {"size": 3},
    }


async def test_a_create_takes_the_namespace_from_the_body() -> None:
    toy = ScriptedServer(answer(WIDGET, 201))

    await toy.client().create(WIDGETS, {"metadata": {"name": "one", "namespace": "there"}})

    assert toy.only.path == "/apis/toys.example.com/v1/namespaces/there/widgets"


async def test_a_dry_run_is_in_the_query() -> None:
    toy = ScriptedServer(answer(WIDGET))
    client = toy.client(field_manager="")

    await client.create(REALMS, {"metadata": {"name": "one"}}, dry_run=True)
    await client.patch(REALMS, "one", merge({}), dry_run=True)

    assert [request.query for request in toy.requests] == [(("dryRun", "All"),)] * 2


async def test_an_update_puts_the_object_to_its_own_path() -> None:
    toy = ScriptedServer(answer(WIDGET))
    widget = Object.from_wire(msgspec.json.encode(WIDGET))

    await toy.client().update(WIDGETS, widget)
    await toy.client().update(WIDGETS, WIDGET, subresource="status")

    path = "/apis/toys.example.com/v1/namespaces/default/widgets/one"
    assert [(r.method, r.path) for r in toy.requests] == [("PUT", path), ("PUT", path + "/status")]
    assert [decoded(r.body) for r in toy.requests] == [WIDGET, WIDGET]


@pytest.mark.parametrize(
    ("patch", "content_type", "body"),
    [
        (merge({"spec": None}), "application/merge-patch+json", {"spec": None}),
        (
            json_patch([{"op": "remove", "path": "/spec"}]),
            "application/json-patch+json",
            [{"op": "remove", "path": "/spec"}],
        ),
    ],
    ids=["merge", "json"],
)
async def test_each_kind_of_patch_has_its_content_type(
    patch: Any, content_type: str, body: Any
) -> None:
    toy = ScriptedServer(answer(WIDGET))

    await toy.client(field_manager="me").patch(REALMS, "one", patch, subresource="status")

    assert toy.only.method == "PATCH"
    assert toy.only.path == "/apis/toys.example.com/v1/realms/one/status"
    assert toy.only.headers["content-type"] == content_type
    assert toy.only.query == (("fieldManager", "me"),)
    assert decoded(toy.only.body) == body


async def test_a_delete_carries_its_preconditions() -> None:
    toy = ScriptedServer(answer({"kind": "Status", "status": "Success"}))

    await toy.client().delete(
        WIDGETS, "one", "default", uid="u", resource_version="5", propagation="Orphan"
    )

    assert toy.only.method == "DELETE"
    assert decoded(toy.only.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Orphan",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
    }


async def test_a_raw_path_keeps_its_query() -> None:
    toy = ScriptedServer(answer({"gitVersion": "v1"}))

    body = await toy.client(prefix="/clusters/hub").raw("/version?timeout=5s")

    assert decoded(body) == {"gitVersion": "v1"}
    assert toy.only.path == "/clusters/hub/version"
    assert toy.only.query == (("timeout", "5s"),)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb"])
async def test_a_name_that_would_change_the_path_is_never_sent(name: str) -> None:
    toy = ScriptedServer(answer(WIDGET))

    with pytest.raises(errors.Invalid):
        await toy.client().get(WIDGETS, name, "default")
    with pytest.raises(errors.Invalid):
        await toy.client().delete(WIDGETS, name, "default")

    assert toy.requests == []


@pytest.mark.parametrize("namespace", ["", "..", "a/b"])
async def test_an_object_needs_a_proper_namespace(namespace: str) -> None:
    toy = ScriptedServer(answer(WIDGET))

    with pytest.raises(errors.Invalid):
        await toy.client().get(WIDGETS, "one", namespace)
    with pytest.raises(errors.Invalid):
        await toy.client().create(WIDGETS, {"metadata": {"name": "one"}}, namespace)

    assert toy.requests == []


async def test_warnings_reach_their_handler() -> None:
    warnings: list[str] = []
    header = '299 - "unknown field \\"spec.x\\"", 299 - "another, with a comma"'
    toy = ScriptedServer(answer(WIDGET, 201, warning=header))

    await toy.client(on_warning=warnings.append).create(REALMS, {"metadata": {"name": "one"}})

    assert warnings == ['unknown field "spec.x"', "another, with a comma"]
