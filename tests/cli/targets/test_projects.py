"""``projects``: listed, created, and usable."""

from __future__ import annotations

from datum_compute.api.quota import v1alpha1 as quota
from datum_compute.api.resourcemanager.v1alpha1 import PROJECTS
from datum_compute.assembly.local.bootstrap import FIRST_GRANTS
from tests.support.cli.session import cli_session


def test_a_created_project_can_be_used_at_once() -> None:
    with cli_session("DFW", "LHR") as here:
        made = here.run("projects create shop")

        assert made.code == 0, made.transcript
        assert here.run("quota --project shop -o name").out.split() == [
            "quota/instances",
            "quota/vcpus",
            "quota/memory",
        ]
        assert here.run("projects -o name").out.split() == ["project/demo", "project/shop"]
        cities = here.run("cities --project shop -o name")
        assert cities.out.split() == ["city/DFW", "city/LHR"]
        deployed = here.run("deploy web --image=acme/web:1 --city=DFW --project shop")
        assert deployed.code == 0, deployed.transcript
        assert here.run("workloads -o name").out == "", "demo has none"
        assert here.run("quota --project shop -o json").json[0]["limit"] == 10


def test_a_project_that_gets_no_quota_is_created_and_said_to_have_none() -> None:
    with cli_session("DFW") as here:
        policies = here.client("root")
        here.act(policies.delete(quota.GRANT_CREATION_POLICIES, FIRST_GRANTS))
        started = here.platform.env.now()

        made = here.run("projects create shop")

        assert made.code == 0, made.transcript
        assert made.err.splitlines() == [
            'Project "shop" was created.',
            "It has no quota for compute yet: the platform may grant some later.",
            "",
            "Try:  datumctl-compute cities --project shop",
            "      datumctl-compute access --project shop",
            "      datumctl-compute quota --project shop",
        ]
        assert (here.platform.env.now() - started).total_seconds() < 15
        assert here.run("projects create lab --timeout 2s").code == 0


def test_a_project_without_a_request_gets_nothing_from_the_platform() -> None:
    with cli_session("DFW") as here:
        body = {
            "apiVersion": "resourcemanager.miloapis.com/v1alpha1",
            "kind": "Project",
            "metadata": {"name": "bare"},
            "spec": {"ownerRef": {"kind": "Organization", "name": "local"}},
        }
        here.act(here.client("root").create(PROJECTS, body))
        here.wait(5)

        assert here.run("access --project bare").code == 10
