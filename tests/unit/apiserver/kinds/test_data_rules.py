"""Keys, sizes, types and immutability of ConfigMaps and Secrets, as a real server judges them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.support.apiserver.widgets import Caller, widget_server

CORE = "/api/v1/namespaces/default"
MERGE = {"content-type": "application/merge-patch+json"}


async def write(caller: Caller, plural: str, **content: Any) -> tuple[int, Any]:
    return await caller.call("POST", f"{CORE}/{plural}", {"metadata": {"name": "one"}, **content})


def causes(refused: Any) -> list[tuple[str, str]]:
    return [(each["field"], each["reason"]) for each in refused["details"]["causes"]]


@pytest.mark.parametrize(
    ("plural", "content", "field", "reason"),
    [
        ("configmaps", {"data": {"a b": "x"}}, "data[a b]", "FieldValueInvalid"),
        ("configmaps", {"data": {"..x": "x"}}, "data[..x]", "FieldValueInvalid"),
        ("configmaps", {"data": {"k" * 254: "x"}}, f"data[{'k' * 254}]", "FieldValueInvalid"),
        ("configmaps", {"binaryData": {"/": "eA=="}}, "binaryData[/]", "FieldValueInvalid"),
        (
            "configmaps",
            {"data": {"a": "x"}, "binaryData": {"a": "eA=="}},
            "data[a]",
            "FieldValueInvalid",
        ),
        ("secrets", {"stringData": {"a b": "x"}}, "data[a b]", "FieldValueInvalid"),
        (
            "secrets",
            {"type": "kubernetes.io/ssh-auth"},
            "data[ssh-privatekey]",
            "FieldValueRequired",
        ),
        (
            "secrets",
            {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}},
            "data[ssh-privatekey]",
            "FieldValueRequired",
        ),
        (
            "secrets",
            {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "x"}},
            "data[tls.key]",
            "FieldValueRequired",
        ),
        (
            "secrets",
            {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{"}},
            "data[.dockerconfigjson]",
            "FieldValueInvalid",
        ),
        (
            "secrets",
            {"type": "kubernetes.io/service-account-token"},
            "metadata.annotations[kubernetes.io/service-account.name]",
            "FieldValueRequired",
        ),
    ],
)
async def test_what_a_real_server_refuses_is_refused(
    plural: str, content: dict[str, Any], field: str, reason: str
) -> None:
    async with widget_server() as caller:
        code, refused = await write(caller, plural, **content)

        assert code == 422, refused
        assert causes(refused) == [(field, reason)]


async def test_basic_auth_needs_one_of_its_keys() -> None:
    async with widget_server() as caller:
        code, refused = await write(caller, "secrets", type="kubernetes.io/basic-auth")

        assert code == 422
        assert [field for field, _ in causes(refused)] == ["data[username]", "data[password]"]
        kept = {"type": "kubernetes.io/basic-auth", "stringData": {"password": ""}}
        assert (await write(caller, "secrets", **kept))[0] == 201


async def test_more_than_a_mebibyte_is_too_long() -> None:
    async with widget_server() as caller:
        half = b64encode(b"x" * 2**19).decode()
        data = {"a": half, "b": half}
        assert (await write(caller, "secrets", data=data))[0] == 201
        code, refused = await write(caller, "secrets", data={**data, "c": "eA=="})

        assert (code, causes(refused)) == (422, [("data", "FieldValueTooLong")])


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
async def test_immutable_data_stays(plural: str) -> None:
    async with widget_server() as caller:
        path = f"{CORE}/{plural}/one"
        assert (await write(caller, plural, data={"a": "eA=="}, immutable=True))[0] == 201

        for change, fields in (
            ({"data": {"a": "eQ=="}}, ["data"]),
            ({"immutable": False}, ["immutable"]),
            ({"immutable": None, "data": None}, ["immutable", "data"]),
        ):
            code, refused = await caller.call("PATCH", path, change, headers=MERGE)
            assert code == 422, refused
            assert [field for field, _ in causes(refused)] == fields

        labelled = {"metadata": {"labels": {"a": "b"}}}
        assert (await caller.call("PATCH", path, labelled, headers=MERGE))[0] == 200
        assert (await caller.call("DELETE", path))[0] == 200


async def test_the_type_of_a_secret_stays() -> None:
    async with widget_server() as caller:
        await write(caller, "secrets")
        change = {"type": "other"}

        code, refused = await caller.call("PATCH", f"{CORE}/secrets/one", change, headers=MERGE)

        assert (code, causes(refused)) == (422, [("type", "FieldValueInvalid")])


@pytest.mark.parametrize(
    ("plural", "given", "kept"),
    [
        ("configmaps", "data", "data"),
        ("configmaps", "binaryData", "binaryData"),
        ("secrets", "data", "data"),
        ("secrets", "stringData", "data"),
    ],
)
async def test_a_null_is_an_empty_value_of_its_key(plural: str, given: str, kept: str) -> None:
    async with widget_server() as caller:
        code, made = await write(caller, plural, **{given: {"a": None, "b": "eA=="}})

        assert (code, made[kept]["a"], len(made[kept])) == (201, "", 2)


async def test_a_null_label_is_an_empty_one() -> None:
    async with widget_server() as caller:
        body = {"metadata": {"name": "one", "labels": {"a": None}}}
        code, made = await caller.call("POST", f"{CORE}/configmaps", body)

        assert (code, made["metadata"]["labels"]) == (201, {"a": ""})


async def test_the_line_ends_of_base64_are_not_kept() -> None:
    async with widget_server() as caller:
        code, made = await write(caller, "secrets", data={"a": "eA=\r\n=\n", "b": "eA=="})

        assert (code, made["data"]) == (201, {"a": "eA==", "b": "eA=="})
