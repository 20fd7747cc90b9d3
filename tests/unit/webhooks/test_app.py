"""A request that is no review is refused with what was expected."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from datum_compute.webhooks.app import BODY_SECONDS, MAX_BODY, webhook_app
from datum_compute.webhooks.projects import OfferReader
from datum_compute.webhooks.workload import MUTATE_PATH, VALIDATE_PATH, WorkloadReviews
from tests.support.decisions.workloads import CONTAINER
from tests.support.webhooks.server import ask, request

APP = webhook_app(WorkloadReviews(OfferReader(lambda _: None)))
REVIEW = request(CONTAINER)


def without(key: str) -> dict[str, Any]:
    inner = {name: value for name, value in REVIEW["request"].items() if name != key}
    return {**REVIEW, "request": inner}


def having(**more: Any) -> dict[str, Any]:
    return {**REVIEW, "request": {**REVIEW["request"], **more}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"\xff", "the body is not JSON"),
        (b'{"a": "\xff"}', "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        ([], "the body is not an AdmissionReview: Expected `object`, got `array`"),
        ({}, "expected admission.k8s.io/v1 AdmissionReview, found no apiVersion no kind"),
        (
            {**REVIEW, "apiVersion": "admission.k8s.io/v1beta1"},
            "expected admission.k8s.io/v1 AdmissionReview, found admission.k8s.io/v1beta1",
        ),
        ({**REVIEW, "request": None}, "the AdmissionReview has no request"),
        (without("uid"), "Object missing required field `uid` - at `$.request`"),
        (having(uid=""), "the AdmissionReview has an empty request.uid"),
        (having(operation=3), "Expected `str`, got `int` - at `$.request.operation`"),
        (
            having(operation="create"),
            'request.operation: Unsupported value: "create": supported values:'
            ' "CREATE", "UPDATE", "DELETE", "CONNECT"',
        ),
        (having(operation=""), 'request.operation: Unsupported value: ""'),
        (having(userInfo={"groups": "a"}), "at `$.request.userInfo.groups`"),
        (having(dryRun="yes"), "at `$.request.dryRun`"),
        (
            having(resource={"group": "apps", "version": "v1", "resource": "deployments"}),
            "reviews of workloads.compute.datumapis.com are answered here,"
            ' not of "deployments.apps"',
        ),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize("path", [MUTATE_PATH, VALIDATE_PATH], ids=["mutate", "validate"])
async def test_a_body_that_is_no_admission_review_is_a_bad_request(
    path: str, body: Any, expected: str
) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    code, answer = await ask(APP, path, raw)

    assert code == 400
    assert expected in answer["error"]


async def test_other_paths_methods_and_content_types_are_refused() -> None:
    raw = json.dumps(REVIEW).encode()

    code, answer = await ask(APP, "/validate", raw)
    assert code == 404
    assert VALIDATE_PATH in answer["error"]
    assert (await ask(APP, MUTATE_PATH, raw, method="GET"))[0] == 405
    assert (await ask(APP, MUTATE_PATH, raw, form="text/plain"))[0] == 415
    assert (await ask(APP, MUTATE_PATH, raw, form=""))[0] == 415
    assert (await ask(APP, MUTATE_PATH, raw, form="application/json; charset=utf-8"))[0] == 200


async def test_a_review_beyond_the_size_limit_is_not_read() -> None:
    code, answer = await ask(APP, MUTATE_PATH, b" " * (MAX_BODY + 1))

    assert code == 413
    assert str(MAX_BODY) in answer["error"]


async def test_unknown_fields_of_a_review_are_ignored() -> None:
    code, _ = await ask(APP, MUTATE_PATH, json.dumps(having(mood="good")).encode())

    assert code == 200


@pytest.mark.parametrize("workload", [None, 3, [], {}, {"spec": []}, {"metadata": 1}], ids=str)
async def test_any_object_gets_a_response(workload: Any) -> None:
    code, answer = await ask(APP, VALIDATE_PATH, json.dumps(request(workload)).encode())

    assert code == 200
    assert answer["response"]["allowed"] is False


@pytest.mark.parametrize(
    "more",
    [{"userInfo": None}, {"userInfo": {"username": "ana", "groups": None, "extra": None}}],
    ids=["no user", "a user without groups"],
)
async def test_a_null_field_counts_as_absent(more: dict[str, Any]) -> None:
    raw = json.dumps(having(namespace=None, subResource=None, **more)).encode()

    code, answer = await ask(APP, VALIDATE_PATH, raw)

    assert code == 200
    assert answer["response"]["status"]["reason"] == "Forbidden"


async def test_an_endless_body_is_abandoned() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not sent:
            sent.append("the first part")
            return {"type": "http.request", "body": b"{", "more_body": True}
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": VALIDATE_PATH, "headers": headers}
    async with asyncio.timeout(BODY_SECONDS + 1):
        await APP(scope, receive, send)

    assert sent[1]["status"] == 408
    assert "did not arrive" in json.loads(sent[2]["body"])["error"]
