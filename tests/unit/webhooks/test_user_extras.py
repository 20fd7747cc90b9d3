"""Lesson 16: the access review of a network left out the user's extras, from which the project's
authorizer reads memberships, so it denied legitimate users.

So: user, groups, uid and extra all travel with the review.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from datum_compute.client.transport import Handler, HttpRequest, HttpResponse
from datum_compute.webhooks.app import webhook_app
from datum_compute.webhooks.projects import OfferReader
from datum_compute.webhooks.workload import WorkloadReviews
from tests.support.client.intercepted_transport import Rule, ends_with, linked_client
from tests.support.decisions.workloads import CONTAINER
from tests.support.webhooks.server import ANA, WebhookServer, request, webhooks

PARENT = "iam.miloapis.com/parent-name"


async def _as_milo(request: HttpRequest, forward: Handler) -> HttpResponse:
    """Milo's authorizer: a member is known by the parent in the extras, not by name alone."""
    review = json.loads(request.body or b"{}")
    spec = review["spec"]
    known = (
        spec.get("user") == "ana"
        and spec.get("uid") == "u-1"
        and spec.get("groups") == ["developers"]
        and (spec.get("extra") or {}).get(PARENT) == ["demo"]
    )
    return HttpResponse(201, body=json.dumps({**review, "status": {"allowed": known}}).encode())


async def _verdict(user: dict[str, Any]) -> dict[str, Any]:
    async with webhooks() as hooks:
        reviews = Rule(_as_milo, ends_with("/subjectaccessreviews"))
        client, _ = linked_client(hooks.embedded, "project/demo", reviews)
        app = webhook_app(WorkloadReviews(OfferReader(lambda _: client)))
        return await WebhookServer(app, hooks.embedded).validate(request(CONTAINER, user=user))


async def test_lesson_16_a_member_known_by_its_extras_may_use_the_network() -> None:
    assert (await _verdict(ANA))["allowed"] is True


@pytest.mark.parametrize("change", [{"username": "bob"}, {"uid": "u-2"}, {"groups": []}], ids=str)
async def test_lesson_16_user_groups_and_uid_are_sent_with_the_review(
    change: dict[str, Any],
) -> None:
    verdict = await _verdict({**ANA, **change})

    assert verdict["allowed"] is False
    assert "permission to use the network was denied" in verdict["status"]["message"]
