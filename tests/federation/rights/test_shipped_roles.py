"""Lesson 17: the roles did not allow writing Events, so none appeared and nothing else failed;
rights on namespaces, network bindings, subnet claims and claims were missing in the same way.

So: roles are written from recorded calls, every process is held to them in the tests, and a call
that is refused fails the test in which it was made.
"""

from __future__ import annotations

import pytest

from datum_compute.api import core
from datum_compute.api.compute import v1alpha as compute
from datum_compute.testing.calls import RecordedCall
from datum_compute.testing.expectations import eventually
from tests.support.federation.stage import NAMESPACE, stage
from tests.support.rights.manifests import allowed
from tests.support.simulation.platform import apply, missing_for_image, workload

NETWORKING = "networking.datumapis.com"


@pytest.mark.parametrize(
    ("process", "plane", "group", "resource", "verbs"),
    [
        ("compute-management", "project", "", "events", {"create", "patch"}),
        ("compute-cell", "cell", "", "events", {"create", "patch"}),
        ("compute-single", "single", "", "events", {"create", "patch"}),
        ("compute-management", "hub", "", "namespaces", {"list", "watch", "create"}),
        ("compute-cell", "cell", "", "namespaces", {"list", "watch"}),
        ("compute-cell", "cell", NETWORKING, "networkbindings", {"list", "watch", "create"}),
        ("compute-cell", "cell", NETWORKING, "subnetclaims", {"list", "watch", "create"}),
        (
            *("compute-cell", "project", "quota.miloapis.com", "resourceclaims"),
            {"list", "watch", "create", "delete"},
        ),
    ],
)
def test_lesson_17_the_shipped_roles_have_what_was_missing(
    process: str, plane: str, group: str, resource: str, verbs: set[str]
) -> None:
    assert {RecordedCall(process, plane, group, resource, verb) for verb in verbs} <= allowed()


async def test_lesson_17_events_are_written_with_the_shipped_roles() -> None:
    async with stage() as on:  # fails at its end if anything was refused
        await apply(on, workload("acme/web:1", 1))
        await eventually("deployed", lambda: missing_for_image(on, "acme/web:1", 2))
        users = {call.user for call in on.calls.calls}
        reported = {
            plane: {obj.kind for obj in (await on.client(plane).list(core.EVENTS)).items}
            for plane in ("project/demo", "cell/dfw")
        }
        shown = await on.project.get(compute.INSTANCES, "web-default-dfw-0", NAMESPACE)

    assert reported == {"project/demo": {"Event"}, "cell/dfw": {"Event"}}
    assert shown.name
    assert {"compute-management", "compute-cell-dfw", "provider-dfw"} <= users


async def test_lesson_17_a_process_has_no_more_than_its_roles() -> None:
    async with stage(permissive=True) as on:
        robot = on.platform.client("cell/lhr", "compute-cell-dfw")
        await robot.list(compute.INSTANCES)
        await on.platform.client("cell/dfw", "compute-cell-dfw").list(core.SECRETS)
        denied = on.calls.denied

    group = compute.INSTANCES.group
    assert RecordedCall("compute-cell-dfw", "cell", group, "instances", "list") in denied, (
        "another's cell"
    )
    assert RecordedCall("compute-cell-dfw", "cell", "", "secrets", "list") in denied
