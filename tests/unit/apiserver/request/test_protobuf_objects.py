"""Built-in objects in protobuf, as ``kubectl create`` sends them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.apiserver.errors import ApiError
from datum_compute.apiserver.request import protobuf, protobuf_bodies
from tests.support.apiserver.protobuf import field, number
from tests.support.apiserver.widgets import widget_server

FORM = {"content-type": protobuf.MEDIA_TYPE, "accept": f"{protobuf.MEDIA_TYPE},application/json"}

AS_KUBECTL_SENT_IT = bytes.fromhex(
    "6b3873000a0f0a02763112094e616d657370616365121e0a160a067465616d2d61"
    "12001a0022002a0032003800420012001a020a001a002200"
)
"""``kubectl create namespace team-a``, version 1.32."""


def envelope(kind: str, message: bytes, version: str = "v1") -> bytes:
    type_meta = field(1, field(1, version) + field(2, kind))
    return protobuf.MAGIC + type_meta + field(2, message) + field(3, "") + field(4, "")


def metadata(name: str, *more: bytes) -> bytes:
    empty = b"".join(field(at, "") for at in (2, 3, 4, 5, 6, 8))
    return field(1, field(1, name) + empty + number(7 << 3) + number(0) + b"".join(more))


def entry(at: int, key: str, value: bytes | str) -> bytes:
    return field(at, field(1, key) + field(2, value))


def flag(at: int, value: bool) -> bytes:
    return number(at << 3) + number(int(value))


def test_a_namespace_as_kubectl_sent_it() -> None:
    assert protobuf_bodies.decode_object(AS_KUBECTL_SENT_IT) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a"},
        "spec": {},
    }


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        (
            "ConfigMap",
            entry(2, "a", "b") + entry(2, "empty", "") + entry(3, "raw", b"\xff") + flag(4, True),
            {"data": {"a": "b", "empty": ""}, "binaryData": {"raw": "/w=="}, "immutable": True},
        ),
        (
            "Secret",
            entry(2, "password", "s3cret") + field(3, "Opaque") + entry(4, "plain", "text"),
            {"data": {"password": "czNjcmV0"}, "type": "Opaque", "stringData": {"plain": "text"}},
        ),
        (
            "ServiceAccount",
            field(2, field(3, "token")) + field(3, field(1, "pull")) + flag(4, False),
            {
                "secrets": [{"name": "token"}],
                "imagePullSecrets": [{"name": "pull"}],
                "automountServiceAccountToken": False,
            },
        ),
    ],
)
def test_a_protobuf_object_equals_its_json_form(
    kind: str, message: bytes, expected: dict[str, Any]
) -> None:
    owner = field(13, field(1, "Namespace") + field(3, "o") + field(5, "v1") + flag(6, True))
    about = metadata("x", entry(11, "app", "web"), entry(12, "note", "n"), owner, field(14, "a/b"))

    assert protobuf_bodies.decode_object(envelope(kind, about + message)) == {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": "x",
            "labels": {"app": "web"},
            "annotations": {"note": "n"},
            "ownerReferences": [
                {"kind": "Namespace", "name": "o", "apiVersion": "v1", "controller": True}
            ],
            "finalizers": ["a/b"],
        },
        **expected,
    }


async def test_the_server_stores_protobuf_objects() -> None:
    async with widget_server() as caller:
        made = await caller.call("POST", "/api/v1/namespaces", AS_KUBECTL_SENT_IT, headers=FORM)
        assert made[0] == 201, made
        path = "/api/v1/namespaces/team-a/configmaps"
        body = envelope("ConfigMap", metadata("settings") + entry(2, "a", "b"))
        code, found = await caller.call("POST", path, body, headers=FORM)

        assert code == 201, found
        code, found = await caller.call("GET", f"{path}/settings")
        assert (code, found["data"]) == (200, {"a": "b"})


async def test_a_kind_without_protobuf_gets_the_accepted_media_types() -> None:
    async with widget_server() as caller:
        body = envelope("Widget", metadata("w"), "example.com/v1")
        code, status = await caller.call(
            "POST", "/apis/example.com/v1/namespaces/default/widgets", body, headers=FORM
        )

        assert (code, status["reason"]) == (415, "UnsupportedMediaType")
        assert "application/json" in status["message"]


@given(st.binary(max_size=40), st.integers(0, 60))
@settings(deadline=None)
def test_arbitrary_bytes_raise_only_the_declared_error(noise: bytes, cut: int) -> None:
    whole = envelope("ConfigMap", metadata("x") + entry(2, "a", "b") + noise)
    code = 200
    try:
        protobuf_bodies.decode_object(whole[: len(whole) - cut])
    except ApiError as error:
        code = error.code

    assert code in (200, 400)
