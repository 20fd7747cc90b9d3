"""``projects``: listed, created, and usable."""

from __future__ import annotations

from datum_compute.api.resourcemanager.v1alpha1 import PROJECTS
from tests.support.cli.session import cli_session


def test_a_created_project_can_be_used_at_once() -> None:
    with cli_session("DFW", "LHR") as here:
        made = here.run("projects create shop")
        here.wait(2)

        assert made.code == 0, made.transcript
        assert here.run("projects -o name").out.split() == ["project/demo", "project/shop"]
        cities = here.run("cities --project shop -o name")
        assert cities.out.split() == ["city/DFW", "city/LHR"]
        deployed = here.run("deploy web --image=acme/web:1 --city=DFW --project shop")
        assert deployed.code == 0, deployed.transcript
        assert here.run("workloads -o name").out == "", "demo has none"
        assert here.run("quota --project shop -o json").json[0]["limit"] == 10


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
