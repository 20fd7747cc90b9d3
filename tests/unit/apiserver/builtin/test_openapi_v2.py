"""OpenAPI 2 says where a kind is patched, in the two forms that clients ask for."""

from __future__ import annotations

import json

from datum_compute.apiserver.builtin import openapi_v2
from datum_compute.apiserver.kinds.builtin_kinds import builtin_kinds
from datum_compute.apiserver.request import protobuf
from datum_compute.apiserver.request.protobuf import TEXT, Message
from tests.support.apiserver.widgets import widget_server

_EXTENSION: Message = {1: ("name", TEXT), 2: ("value", {2: ("yaml", TEXT)})}
_QUERY: Message = {2: ("in", TEXT), 4: ("name", TEXT), 6: ("type", TEXT)}
_PARAMETER: Message = {1: ("parameter", {2: ("nonBody", {3: ("query", _QUERY)})})}
_PATCH: Message = {
    5: ("operationId", TEXT),
    8: ("parameters", [_PARAMETER]),
    13: ("extensions", [_EXTENSION]),
}
_PATHS: Message = {2: ("paths", [{1: ("name", TEXT), 2: ("item", {8: ("patch", _PATCH)})}])}
_DOCUMENT: Message = {
    1: ("swagger", TEXT),
    2: ("info", {1: ("title", TEXT), 2: ("version", TEXT)}),
    8: ("paths", _PATHS),
}


def test_both_forms_have_the_same_patches() -> None:
    kinds = builtin_kinds()
    document = json.loads(openapi_v2.as_json(kinds))
    message = protobuf.read(openapi_v2.as_protobuf(kinds), _DOCUMENT)

    assert message["swagger"] == document["swagger"] == "2.0"
    assert message["info"] == document["info"]
    paths = message["paths"]["paths"]
    assert [each["name"] for each in paths] == list(document["paths"])
    for each in paths:
        patch, expected = each["item"]["patch"], document["paths"][each["name"]]["patch"]
        extensions = {one["name"]: one["value"]["yaml"] for one in patch["extensions"]}
        served = json.loads(extensions["x-kubernetes-group-version-kind"])
        assert served == expected["x-kubernetes-group-version-kind"]
        assert patch["operationId"] == expected["operationId"]
        parameters = [one["parameter"]["nonBody"]["query"] for one in patch["parameters"]]
        assert parameters == expected["parameters"]


def test_namespaces_are_patched_and_services_are_not() -> None:
    paths = json.loads(openapi_v2.as_json(builtin_kinds()))["paths"]

    names = [each["name"] for each in paths["/api/v1/namespaces/{name}"]["patch"]["parameters"]]
    assert "fieldValidation" in names
    assert not any("services" in path for path in paths)


async def test_the_form_follows_accept() -> None:
    async with widget_server() as caller:
        for accept, form in (
            ("", "application/json"),
            ("application/json, */*", "application/json"),
            (openapi_v2.PROTOBUF_ACCEPTED, openapi_v2.PROTOBUF_TYPE),
        ):
            found = await caller.send("GET", "/openapi/v2", headers={"accept": accept})
            assert (found.status, found.headers["content-type"]) == (200, form)
            assert b"widgets" in found.body
        refused = await caller.send("GET", "/openapi/v2", headers={"accept": "text/html"})
        assert refused.status == 406
