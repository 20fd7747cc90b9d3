"""Reviews in protobuf, as kubectl sends them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.apiserver.errors import ApiError
from datum_compute.apiserver.request import protobuf, protobuf_bodies
from tests.support.apiserver.protobuf import field
from tests.support.apiserver.widgets import Caller, widget_server

REVIEWS = "/apis/authorization.k8s.io/v1"
FORM = {"content-type": protobuf.MEDIA_TYPE}


def envelope(review: bytes) -> bytes:
    kind = field(1, field(1, "authorization.k8s.io/v1") + field(2, "SelfSubjectAccessReview"))
    return protobuf.MAGIC + kind + field(2, review) + field(3, "") + field(4, "")


def about(verb: str, resource: str, **more: str) -> bytes:
    numbers = {"namespace": 1, "group": 3, "version": 4, "subresource": 6, "name": 7}
    rest = b"".join(field(numbers[key], value) for key, value in more.items())
    return field(1, field(2, verb) + field(5, resource) + rest)


def test_a_protobuf_review_equals_its_json_form() -> None:
    spec = about("use", "networks", namespace="default", group="example.com", name="blue")
    whom = field(3, "ana") + field(4, "developers") + field(4, "people") + field(6, "u-1")
    metadata = field(1, field(1, "ignored"))

    found = protobuf_bodies.decode_review(
        "subjectaccessreviews", envelope(metadata + field(2, spec + whom) + field(3, b"\x08\x01"))
    )

    attributes = {
        "verb": "use",
        "resource": "networks",
        "namespace": "default",
        "group": "example.com",
        "name": "blue",
    }
    assert found == {
        "spec": {
            "resourceAttributes": attributes,
            "user": "ana",
            "groups": ["developers", "people"],
            "uid": "u-1",
        }
    }


async def test_the_server_responds_to_protobuf_reviews() -> None:
    async with widget_server() as caller:
        caller.embedded.token("bob", ["developers"])
        bob = Caller(caller.embedded, "root", "bob")
        body = envelope(field(2, about("list", "widgets", group="example.com")))
        path = f"{REVIEWS}/selfsubjectaccessreviews"

        admin = await _ask(caller, path, body)
        refused = await _ask(bob, path, body)
        rules = await _ask(
            bob, f"{REVIEWS}/selfsubjectrulesreviews", envelope(field(2, field(1, "default")))
        )
        who = await _ask(bob, "/apis/authentication.k8s.io/v1/selfsubjectreviews", envelope(b""))

    assert admin["status"]["allowed"] is True
    assert refused["status"]["allowed"] is False
    assert refused["spec"]["resourceAttributes"]["resource"] == "widgets"
    assert rules["status"]["resourceRules"]
    assert who["status"]["userInfo"]["username"] == "bob"


async def _ask(caller: Caller, path: str, body: bytes) -> Any:
    code, answer = await caller.call("POST", path, body, headers=FORM)
    assert code == 201, answer
    return answer


@pytest.mark.parametrize(
    "body", [b"", b"{}", protobuf.MAGIC + b"\x0a\xff", protobuf.MAGIC + b"\x0f"]
)
def test_a_body_that_is_no_protobuf_review_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        protobuf_bodies.decode_review("selfsubjectaccessreviews", body)

    assert caught.value.code == 400


@given(st.binary(max_size=40), st.integers(0, 60))
@settings(deadline=None)
def test_arbitrary_bytes_raise_only_the_declared_error(noise: bytes, cut: int) -> None:
    whole = envelope(field(2, about("list", "widgets", group="example.com")) + noise)
    code = 200
    try:
        protobuf_bodies.decode_review("selfsubjectaccessreviews", whole[: len(whole) - cut])
    except ApiError as error:
        code = error.code

    assert code in (200, 400)
