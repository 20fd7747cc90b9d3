"""Lesson 26: the CLI joined Instances to workloads by UID, which differs from plane to plane, and
called them orphaned.

So: an Instance's own labels first, then the deployment they name, then its name without ordinal.
"""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.cli.explain import states
from tests.support.cli.session import cli_session

PREFIX = "compute.datumapis.com/"
FOREIGN = {"workload-uid": "of-another-plane", "workload-deployment-uid": "of-another-plane"}
DEPLOYMENT: dict[str, Any] = {
    "metadata": {"name": "web-default-dfw", "uid": "of-this-plane"},
    "spec": {
        "workloadRef": {"name": "web", "uid": "of-this-plane"},
        "placementName": "default",
        "cityCode": "DFW",
    },
}


@pytest.mark.parametrize(
    "labels",
    [
        {"workload-name": "web", "placement-name": "default", "city-code": "DFW"},
        {"workload-deployment-name": "web-default-dfw"},
        {},
    ],
    ids=["labels", "deployment", "ordinal"],
)
def test_lesson_26_an_instance_is_joined_to_its_workload_whatever_its_uids(
    labels: dict[str, str],
) -> None:
    name = "web-default-dfw-7" if "workload-name" not in labels else "of-any-name-7"
    carried = {PREFIX + key: value for key, value in {**labels, **FOREIGN}.items()}
    instance = {"metadata": {"name": name, "labels": carried}}

    found = states.instance_identities([instance], lambda: [DEPLOYMENT])

    assert found[name] == states.InstanceIdentity("web", "default", "DFW")


def test_lesson_26_no_instance_is_listed_without_its_workload_and_city() -> None:
    with cli_session("DFW", "LHR") as at:
        assert at.run("deploy web --image acme/web:1 --city DFW,LHR --min 2 --yes").code == 0
        at.wait(5)
        workload = at.act(at.client().get(compute.WORKLOADS, "web", "default"))
        in_cell = at.act(at.client("cell/dfw").list(compute.WORKLOAD_DEPLOYMENTS)).items
        here = at.act(at.client().list(compute.WORKLOAD_DEPLOYMENTS)).items
        assert {each.metadata.uid for each in in_cell}.isdisjoint(
            {each.metadata.uid for each in (*here, workload)}
        )

        rows = at.run("instances -o json").json
        assert sorted((each["workload"], each["city"]) for each in rows) == [
            ("web", "DFW"),
            ("web", "DFW"),
            ("web", "LHR"),
            ("web", "LHR"),
        ]
