"""A restart replaces every instance, or those of one city, whatever the time of the last one."""

from __future__ import annotations

from typing import Any

from datum_compute.api.compute import v1alpha as compute
from datum_compute.client.protocol import merge
from tests.support.cli.session import CliSession, cli_session

RESTARTED = "compute.datumapis.com/restartedAt"
DEPLOY = "deploy api --image=a/api:1 --city=DFW,LHR"


def uids(here: CliSession) -> dict[str, str]:
    """Which instance runs in which city."""
    found = here.run("instances -o json").json
    annotation = "compute.datumapis.com/instance-uid"
    return {each["city"]: each["object"]["metadata"]["annotations"][annotation] for each in found}


def restarted_at(template: dict[str, Any]) -> str | None:
    found = ((template.get("metadata") or {}).get("annotations") or {}).get(RESTARTED)
    return str(found) if found is not None else None


def on_workload(here: CliSession) -> str | None:
    return restarted_at(here.run("status api -o json").json["object"]["spec"]["template"])


def on_deployments(here: CliSession) -> dict[str, str | None]:
    page = here.act(here.client().list(compute.WORKLOAD_DEPLOYMENTS, "default"))
    views = [item.view(compute.WorkloadDeployment).spec for item in page.items]
    return {
        spec.city_code: (spec.template.metadata.annotations or {}).get(RESTARTED) for spec in views
    }


def set_on_workload(here: CliSession, moment: str) -> None:
    template = {"metadata": {"annotations": {RESTARTED: moment}}}
    patch = merge({"spec": {"template": template}})
    here.act(here.client().patch(compute.WORKLOADS, "api", patch, "default"))
    here.wait(10)


def test_a_restart_replaces_every_instance_without_a_prompt() -> None:
    with cli_session() as here:
        here.run(f"{DEPLOY} --window=0s")
        before = uids(here)

        assert here.run("restart api --window=0s").code == 0

        after = uids(here)
        assert sorted(after) == sorted(before)
        assert not set(after.values()) & set(before.values())
        assert on_workload(here) == "2026-01-01T00:00:00Z"


def test_a_second_restart_in_the_same_second_replaces_instances_again() -> None:
    with cli_session() as here:
        here.run(f"{DEPLOY} --window=0s")
        assert here.run("restart api --window=0s").code == 0
        before = uids(here)

        assert here.run("restart api --window=0s").code == 0

        assert on_workload(here) == "2026-01-01T00:00:01Z"
        assert not set(uids(here).values()) & set(before.values())


def test_a_restart_takes_effect_although_the_last_one_has_a_later_time() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        set_on_workload(here, "2027-01-01T00:00:00Z")
        before = uids(here)

        assert here.run("restart api").code == 0

        assert on_workload(here) == "2027-01-01T00:00:01Z"
        assert not set(uids(here).values()) & set(before.values())


def test_a_restart_of_one_city_leaves_the_others_alone() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        before = uids(here)

        assert here.run("rollout restart api --city lhr").code == 0
        here.wait(30)

        after = uids(here)
        assert after["DFW"] == before["DFW"]
        assert after["LHR"] != before["LHR"]
        assert on_workload(here) is None
        assert on_deployments(here)["DFW"] is None
        assert on_deployments(here)["LHR"] is not None


def test_a_restart_of_all_cities_includes_one_whose_last_restart_has_a_later_time() -> None:
    with cli_session() as here:
        here.run(DEPLOY)
        ahead = {"metadata": {"annotations": {RESTARTED: "2027-01-01T00:00:00Z"}}}
        patch = merge({"spec": {"template": ahead}})
        here.act(
            here.client().patch(compute.WORKLOAD_DEPLOYMENTS, "api-default-lhr", patch, "default")
        )
        here.wait(10)
        before = uids(here)

        assert here.run("restart api").code == 0

        assert not set(uids(here).values()) & set(before.values())
        assert on_deployments(here) == dict.fromkeys(("DFW", "LHR"), "2027-01-01T00:00:01Z")


def test_a_city_that_cannot_be_restarted_is_refused() -> None:
    with cli_session() as here:
        here.run("deploy api --image=a/api:1 --city=DFW")

        result = here.run("restart api --city LHR")

        assert result.code == 5
        assert 'city "LHR" not found in workload "api"; available: DFW' in result.err
        assert here.run("restart nosuch").code == 5
