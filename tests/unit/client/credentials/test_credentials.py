"""Tokens that change while a client is in use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from datum_compute.client import errors
from datum_compute.client.auth.credentials import ClientIdentity, TokenFile, is_token
from datum_compute.client.protocol import merge
from datum_compute.client.transport import HttpRequest, HttpResponse
from tests.support.client.scripted_server import (
    REALMS,
    WIDGET,
    ScriptedServer,
    ScriptedStream,
    answer,
    encode,
    refusal,
)

UNAUTHORIZED = refusal(401, "Unauthorized")


class Guard:
    """A server that accepts one token at a time."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.writes = 0

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return answer(UNAUTHORIZED, 401)
        if ("watch", "true") in request.query:
            event = encode({"type": "ERROR", "object": UNAUTHORIZED}) + b"\n"
            return HttpResponse(200, {}, stream=ScriptedStream([event]))
        self.writes += request.method != "GET"
        return answer(WIDGET)


def rewritten(file: Path, token: str) -> None:
    """Another token of the same length in the same file at the same time of day: nothing that
    a look from outside would show."""
    stat = file.stat()
    file.write_text(token)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("token-1")
    return path


async def test_after_a_401_a_token_file_is_read_again(file: Path) -> None:
    guard = Guard("token-1")
    toy = ScriptedServer(guard)
    client = toy.client(token=TokenFile(file))
    await client.get(REALMS, "one")

    guard.token = "token-2"
    rewritten(file, "token-2")
    await client.patch(REALMS, "one", merge({}))

    sent = [request.headers["authorization"] for request in toy.requests]
    assert sent == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]
    assert guard.writes == 1


async def test_a_401_without_a_new_identity_is_not_retried(file: Path) -> None:
    toy = ScriptedServer(Guard("other"))

    for token in ("fixed", TokenFile(file), lambda: "returned"):
        toy.requests.clear()
        with pytest.raises(errors.Unauthorized):
            await toy.client(token=token).get(REALMS, "one")
        assert len(toy.requests) == 1


async def test_a_credential_that_changes_at_each_fetch_is_tried_twice_only() -> None:
    numbers = iter(range(100))
    toy = ScriptedServer(Guard("other"))

    with pytest.raises(errors.Unauthorized):
        await toy.client(token=lambda: f"t{next(numbers)}").get(REALMS, "one")

    assert len(toy.requests) == 2


async def test_a_401_inside_a_watch_makes_the_next_one_fetch_again(file: Path) -> None:
    guard = Guard("token-1")
    toy = ScriptedServer(guard)
    client = toy.client(token=TokenFile(file))
    async with client.watch(REALMS) as events:
        rewritten(file, "token-2")
        with pytest.raises(errors.Unauthorized):
            await anext(events)

    guard.token = "token-2"
    async with client.watch(REALMS):
        pass

    sent = [request.headers["authorization"] for request in toy.requests]
    assert sent == ["Bearer token-1", "Bearer token-2"]


async def test_opening_a_watch_fetches_the_identity_again_after_a_401(file: Path) -> None:
    guard = Guard("token-1")
    client = ScriptedServer(guard).client(token=TokenFile(file))
    await client.get(REALMS, "one")
    rewritten(file, "token-2")
    guard.token = "token-2"

    async with client.watch(REALMS):
        pass


@pytest.mark.parametrize("content", ["", "  \n", "two\nlines", "caf\xe9"])
def test_a_file_that_is_being_replaced_keeps_the_last_token(file: Path, content: str) -> None:
    token = TokenFile(file)
    assert token() == "token-1"

    file.write_bytes(content.encode("latin-1"))
    assert token() == "token-1"

    file.write_text("token-22")
    assert token() == "token-22"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a\nb"])
async def test_without_a_token_no_request_is_sent(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    toy = ScriptedServer(answer(WIDGET))

    with pytest.raises(errors.CredentialFailed, match=r"get realms.* on toy: cannot read the tok"):
        await toy.client(token=TokenFile(path)).get(REALMS, "one")

    assert toy.requests == []


@pytest.mark.parametrize("text", ["a\r\nX-Evil: 1", "\0", "\x7f", "caf\xe9"])
def test_a_token_with_line_breaks_cannot_inject_a_header(text: str) -> None:
    assert not is_token(text)


def test_the_repr_of_an_identity_has_no_credential() -> None:
    identity: Any = ClientIdentity("secret", b"pem")

    assert "secret" not in f"{identity} {identity!r}"
