"""Reviews of Workloads, as an API server sends them, with real planes behind."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from datum_compute.api import core
from datum_compute.apiserver.objects.patches import json_patch
from datum_compute.client import errors
from datum_compute.client.transport import HttpResponse
from datum_compute.decisions.admission import with_defaults
from datum_compute.webhooks.app import webhook_app
from datum_compute.webhooks.projects import READ_SECONDS, OfferReader
from datum_compute.webhooks.workload import WorkloadReviews
from tests.support.client.intercepted_transport import (
    CUT,
    Action,
    Rule,
    SentRequest,
    fail,
    hang,
    has_method,
    linked_client,
    record,
    refuse,
    respond,
)
from tests.support.decisions.workloads import CONTAINER, with_changes
from tests.support.webhooks.server import (
    ANA,
    NetworkAuthorizer,
    WebhookServer,
    bind,
    request,
    webhooks,
)

CPU = {"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}


async def test_a_good_workload_is_allowed() -> None:
    async with webhooks() as hooks:
        response = await hooks.validate(request(CONTAINER))

    assert response == {"uid": "r-1", "allowed": True}


async def test_a_location_not_bound_to_the_project_is_refused_with_the_bound_ones_listed() -> None:
    async with webhooks(cities=("DFW", "LHR")) as hooks:
        await bind(hooks.embedded.client("project/demo"), "SIN", available=False)
        workload = with_changes(CONTAINER, {"PLACEMENT.cityCodes": ["DFW", "XXX", "SIN"]})
        response = await hooks.validate(request(workload))

    assert response["allowed"] is False
    assert response["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": 'Workload.compute.datumapis.com "api" is invalid: ['
        'spec.placements[0].cityCodes[1]: Unsupported value: "XXX": supported values: "DFW", "LHR",'
        ' spec.placements[0].cityCodes[2]: Unsupported value: "SIN": supported values:'
        ' "DFW", "LHR"]',
        "details": {
            "name": "api",
            "group": "compute.datumapis.com",
            "kind": "Workload",
            "causes": [
                {
                    "reason": "FieldValueNotSupported",
                    "message": f'Unsupported value: "{city}": supported values: "DFW", "LHR"',
                    "field": f"spec.placements[0].cityCodes[{i}]",
                }
                for i, city in ((1, "XXX"), (2, "SIN"))
            ],
        },
    }


async def test_a_city_is_accepted_as_soon_as_it_is_bound() -> None:
    async with webhooks(cities=("DFW",)) as hooks:
        assert (await hooks.validate(request(CONTAINER)))["allowed"] is False

        await bind(hooks.embedded.client("project/demo"), "LHR")

        assert (await hooks.validate(request(CONTAINER)))["allowed"] is True


async def test_all_faults_are_reported_at_once_up_to_a_limit() -> None:
    variables = [{"name": f"V{i}", "value": i} for i in range(100)]
    async with webhooks() as hooks:
        response = await hooks.validate(request(with_changes(CONTAINER, {"APP.env": variables})))

    assert len(response["status"]["details"]["causes"]) == 64
    assert response["status"]["message"].endswith("] and 36 more")


async def test_warnings_are_returned_with_the_response() -> None:
    workload = with_changes(CONTAINER, {"SCALE.metrics": [CPU]})
    async with webhooks() as hooks:
        response = await hooks.validate(request(workload))
        bad = await hooks.validate(request(with_changes(workload, {"APP.image": ""})))

    assert response["allowed"] is True
    assert response["warnings"][0].startswith("autoscaling is not active")
    assert (bad["allowed"], bad["warnings"]) == (False, response["warnings"])


async def test_a_missing_network_is_warned_about() -> None:
    workload = with_changes(CONTAINER, {"TEMPLATE.networkInterfaces[0].network.name": "lab"})
    async with webhooks(rules=NetworkAuthorizer(frozenset({"lab"}))) as hooks:
        response = await hooks.validate(request(workload))

    assert response["allowed"] is True
    assert response["warnings"] == [
        'network "lab" does not exist in the workload\'s namespace: nothing starts until it does'
    ]


@pytest.mark.parametrize("changed", [False, True], ids=["created", "changed"])
async def test_a_cluster_without_a_hub_says_that_it_does_not_roll_on_changes(changed: bool) -> None:
    notes = {"compute.datumapis.com/roll-on-config-change": "true"}
    rolls = with_changes(CONTAINER, {"spec.template.metadata.annotations": notes})
    old = CONTAINER if changed else None
    async with webhooks(single="single", delivers_data=False) as hooks:
        response = await hooks.validate(request(rolls, old))

    assert response["allowed"] is True
    assert [
        "has no effect on a cluster without a hub" in each for each in response["warnings"]
    ] == [True]


# Defaults.


async def test_defaults_are_filled_in_by_a_patch() -> None:
    async with webhooks() as hooks:
        operations = await hooks.mutate(request(CONTAINER))

    assert json_patch(CONTAINER, operations) == with_defaults(CONTAINER) != CONTAINER


async def test_there_is_no_patch_where_no_default_is_missing() -> None:
    async with webhooks() as hooks:
        assert await hooks.mutate(request(with_defaults(CONTAINER))) == []
        assert await hooks.mutate(request({"spec": "nonsense"})) == []


# Access to networks.


async def test_a_network_that_may_not_be_used_is_refused() -> None:
    async with webhooks(rules=NetworkAuthorizer(frozenset())) as hooks:
        response = await hooks.validate(request(CONTAINER))

    assert response["status"]["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: permission to use the network was denied",
            "field": "spec.template.spec.networkInterfaces[0].network",
        }
    ]


async def test_access_to_each_network_of_each_interface_is_reviewed() -> None:
    rules = NetworkAuthorizer(frozenset({"default", "lab"}))
    workload = with_changes(
        CONTAINER, {"TEMPLATE.networkInterfaces[1]": {"network": {"name": "lab"}}}
    )
    async with webhooks(rules=rules) as hooks:
        await hooks.validate(request(workload))

    # What is allowed is asked again for the reason of the answer.
    asked = dict.fromkeys(
        (each.verb, each.group, each.resource, each.namespace, each.name) for each in rules.asked
    )
    assert list(asked) == [
        ("use", "networking.datumapis.com", "networks", "default", name)
        for name in ("default", "lab")
    ]


async def test_the_review_carries_user_groups_uid_and_extra() -> None:
    async with webhooks() as hooks:
        created: list[SentRequest] = []
        recorded = Rule(record(created), has_method("POST"))
        client, _ = linked_client(hooks.embedded, "project/demo", recorded)
        app = webhook_app(WorkloadReviews(OfferReader(lambda _: client)))
        await WebhookServer(app, hooks.embedded).validate(request(CONTAINER))

    (review,) = [each.request for each in created]
    assert review.path.endswith(f"/{core.SUBJECT_ACCESS_REVIEWS.plural}")
    spec = json.loads(review.body)["spec"]
    assert (spec["user"], spec["uid"], spec["groups"]) == ("ana", "u-1", ["developers"])
    assert spec["extra"] == ANA["extra"]


async def test_the_namespace_is_that_of_the_request() -> None:
    """The object need not repeat it, and another value in it does not count."""
    named = {"TEMPLATE.networkInterfaces[0].network.namespace": "default"}
    async with webhooks() as hooks:
        for metadata in ({"name": "api"}, {"name": "api", "namespace": "other"}):
            workload = with_changes(CONTAINER, {**named, "metadata": metadata})
            assert (await hooks.validate(request(workload)))["allowed"] is True


# Updates.


async def test_only_the_changes_of_an_update_are_validated() -> None:
    rules = NetworkAuthorizer()
    async with webhooks(cities=("DFW", "IAD"), rules=rules) as hooks:  # without LHR
        rules.networks = frozenset()
        image = with_changes(CONTAINER, {"APP.image": "b:2"})
        city = with_changes(CONTAINER, {"PLACEMENT.cityCodes": ["DFW", "LHR", "SIN"]})

        assert (await hooks.validate(request(image, CONTAINER)))["allowed"] is True
        refused = await hooks.validate(request(city, CONTAINER))
        assert len(refused["status"]["details"]["causes"]) == 1
        assert "cityCodes[2]" in refused["status"]["message"]


@pytest.mark.parametrize(
    "more", [{"operation": "DELETE"}, {"operation": "CONNECT"}, {"subResource": "status"}], ids=str
)
async def test_writes_other_than_of_the_spec_are_not_validated(more: dict[str, Any]) -> None:
    async with webhooks() as hooks:
        response = await hooks.validate(request({"spec": None}, **more))

        assert response == {"uid": "r-1", "allowed": True}
        assert await hooks.mutate(request(CONTAINER, **more)) == []


async def test_a_dry_run_is_reviewed_like_any_other() -> None:
    async with webhooks() as hooks:
        good = await hooks.validate(request(CONTAINER, dryRun=True))
        bad = await hooks.validate(request(with_changes(CONTAINER, {"APP.image": ""}), dryRun=True))

    assert (good["allowed"], bad["allowed"]) == (True, False)


# The project, and planes that cannot be read.


async def test_the_project_is_the_one_the_user_acts_in() -> None:
    async with webhooks() as hooks:
        other = {**ANA, "extra": {"iam.miloapis.com/parent-name": ["other"]}}
        response = await hooks.validate(request(CONTAINER, user=other))

    assert response["allowed"] is False
    assert response["status"]["code"] == 503
    assert response["status"]["details"] == {"retryAfterSeconds": 1}
    assert response["status"]["message"] == (
        'the workload cannot be reviewed now: project "other" is not known here yet; try again'
    )


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"iam.miloapis.com/parent-name": []},
        {"iam.miloapis.com/parent-name": [""]},
        {"iam.miloapis.com/parent-name": ["demo", "other"]},
        {"iam.miloapis.com/parent-name": ["demo"], "iam.miloapis.com/parent-type": ["User"]},
    ],
    ids=str,
)
async def test_a_user_without_a_project_is_refused(extra: dict[str, Any]) -> None:
    async with webhooks() as hooks:
        response = await hooks.validate(request(CONTAINER, user={**ANA, "extra": extra}))

    assert response["allowed"] is False
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    assert 'user "ana" acts in no project' in response["status"]["message"]


async def test_a_single_cluster_needs_no_project() -> None:
    async with webhooks(single="single") as hooks:
        response = await hooks.validate(request(CONTAINER, user={**ANA, "extra": {}}))

    assert response["allowed"] is True


UNREAD = "could not be read: list locationbindings.networking.datumapis.com on demo"
MISSING = HttpResponse(404, {"content-type": "text/plain"}, b"404 page not found")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (fail(errors.ConnectFailed("connection refused")), f"{UNREAD}: connection refused"),
        (refuse(403, "Forbidden", "no right"), f"{UNREAD}: no right"),
        (respond(MISSING), f"{UNREAD}: 404 page not found"),
        (hang, "did not answer in time"),
    ],
    ids=["down", "forbidden", "not-served", "silent"],
)
async def test_an_unreadable_project_is_a_refusal_that_may_be_retried(
    action: Action, expected: str
) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with webhooks() as hooks:
        client, _ = linked_client(hooks.embedded, "project/demo", Rule(action))
        app = webhook_app(WorkloadReviews(OfferReader(lambda _: client)))
        response = await WebhookServer(app, hooks.embedded).validate(request(CONTAINER))

    assert (response["allowed"], response["status"]["code"]) == (False, 503)
    assert f'project "demo" {expected}' in response["status"]["message"]
    assert loop.time() - started <= READ_SECONDS + 1


async def test_a_controller_can_write_its_finalizer_while_planes_are_unreachable() -> None:
    noted = with_changes(
        CONTAINER, {"metadata.finalizers": ["compute.datumapis.com/workload-controller"]}
    )
    async with webhooks() as hooks:
        client, _ = linked_client(hooks.embedded, "project/demo", CUT)
        app = webhook_app(WorkloadReviews(OfferReader(lambda _: client)))
        controller = {"username": "compute-management", "groups": [], "extra": {}}
        review = request(noted, CONTAINER, user=controller)

        assert (await WebhookServer(app, hooks.embedded).validate(review))["allowed"] is True


async def test_networks_with_invalid_names_are_not_read() -> None:
    """The name of a network becomes part of a path."""
    workload = with_changes(CONTAINER, {"TEMPLATE.networkInterfaces[0].network.name": "../x"})
    async with webhooks() as hooks:
        response = await hooks.validate(request(workload))

    (cause,) = response["status"]["details"]["causes"]
    assert cause["field"].endswith("network.name")
