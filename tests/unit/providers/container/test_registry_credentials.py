"""Which credentials of a Secret are tried for which image."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from datum_compute.providers.container.images.registry_credentials import pull_credentials
from datum_compute.providers.errors import Rejected

AUTH = {"auth": base64.b64encode(b"ann:pass:word").decode()}


def users(image: str, *secrets: dict[str, Any]) -> list[str]:
    """The users that are tried, in order."""
    given = [(f'Secret "{i}"', json.dumps(each).encode()) for i, each in enumerate(secrets)]
    found = pull_credentials(image, given)
    return [json.loads(base64.urlsafe_b64decode(each))["username"] for each in found]


@pytest.mark.parametrize(
    ("entry", "image", "matches"),
    [
        ("registry.example", "registry.example/app:1", True),
        ("https://registry.example/v2/", "registry.example/app:1", True),
        ("registry.example:5000", "registry.example:5000/app:1", True),
        ("registry.example", "registry.example:5000/app:1", False),
        ("other.example", "registry.example/app:1", False),
        ("registry.example/team", "registry.example/team/app:1", True),
        ("registry.example/team", "registry.example/other/app:1", False),
        ("*.example", "registry.example/app:1", True),
        ("*.example", "a.registry.example/app:1", False),
        ("https://index.docker.io/v1/", "docker.io/library/nginx:1", True),
        ("docker.io", "docker.io/team/app:1", True),
        ("docker.io", "registry.example/app:1", False),
    ],
)
def test_an_entry_serves_the_images_of_its_registry(entry: str, image: str, matches: bool) -> None:
    assert users(image, {"auths": {entry: AUTH}}) == (["ann"] if matches else [])


def test_entries_of_all_secrets_are_tried_and_longer_names_first() -> None:
    named = {"username": "bob", "password": "p"}
    first = {"auths": {"registry.example": AUTH}}
    second = {"auths": {"registry.example/team": named}}

    assert users("registry.example/team/app:1", first, second) == ["bob", "ann"]


def test_a_password_may_have_colons() -> None:
    content = json.dumps({"auths": {"registry.example": AUTH}}).encode()
    [header] = pull_credentials("registry.example/app:1", [("Secret", content)])

    assert json.loads(base64.urlsafe_b64decode(header)) == {
        "username": "ann",
        "password": "pass:word",
        "serveraddress": "registry.example",
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hidden", "is not a configuration of docker"),
        (b'{"hidden": {}}', "is not a configuration of docker"),
        (b'{"auths": {"registry.example": {"auth": "hidden"}}}', "has no valid auth for registry"),
        (b'{"auths": {"registry.example": {"auth": "aGlkZGVu"}}}', "expected USER:PASSWORD"),
    ],
)
def test_what_cannot_be_used_is_named_without_its_content(content: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words) as raised:
        pull_credentials("registry.example/app:1", [('Secret "r"', content)])

    assert raised.value.message.startswith('Secret "r" ')
    assert "hidden" not in raised.value.message
    assert raised.value.delay
