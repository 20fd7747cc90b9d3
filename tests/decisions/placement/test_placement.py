"""Which deployments a workload wants, given the locations of its project."""

from __future__ import annotations

from typing import Any

import pytest

from datum_compute.decisions.placement import (
    PlacementPlan,
    UnservedCity,
    WantedDeployment,
    build_deployment_spec,
    decide_placement,
)
from datum_compute.decisions.restarts import keep_restart
from tests.support.decisions.builders import binding, deployment, workload

DFW = WantedDeployment("web-default-dfw", "default", "DFW")
RESTARTED = "compute.datumapis.com/restartedAt"


def test_one_deployment_per_placement_and_served_city() -> None:
    plan = decide_placement(
        workload=workload(default=["DFW", "IAD"], backup=["DFW"]),
        bindings=[binding("DFW"), binding("IAD")],
        deployments=[],
    )

    assert plan == PlacementPlan(
        wanted=(
            WantedDeployment("web-backup-dfw", "backup", "DFW"),
            DFW,
            WantedDeployment("web-default-iad", "default", "IAD"),
        )
    )


@pytest.mark.parametrize("available", ["False", "Unknown"])
def test_an_unserved_city_is_reported_and_gets_no_deployment(available: str) -> None:
    plan = decide_placement(
        workload=workload(default=["SYD", "DFW"]),
        bindings=[binding("DFW"), binding("SYD", available=available)],
        deployments=[],
    )

    assert plan.wanted == (DFW,)
    assert plan.unserved == (UnservedCity("default", "SYD"),)


def test_a_deployment_stays_when_its_binding_is_deleted() -> None:
    plan = decide_placement(
        workload=workload(default=["DFW"]), bindings=[], deployments=[deployment("DFW")]
    )

    assert plan.wanted == (DFW,)
    assert plan.unserved == (UnservedCity("default", "DFW"),)
    assert plan.orphans == ()


def test_a_city_is_spelled_as_its_binding_spells_it() -> None:
    plan = decide_placement(
        workload=workload(default=["dfw", "DFW"]), bindings=[binding("DFW")], deployments=[]
    )

    assert plan.wanted == (DFW,)


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_bindings_for_a_city_the_first_by_name_spells_it(order: int) -> None:
    named = [binding("Dfw"), binding("DFW", name="a")]

    plan = decide_placement(
        workload=workload(default=["dfw"]), bindings=named[::order], deployments=[]
    )

    assert plan.wanted == (DFW,)


def test_a_binding_without_a_city_serves_none() -> None:
    plan = decide_placement(
        workload=workload(default=["DFW"]), bindings=[binding("", name="odd")], deployments=[]
    )

    assert plan.unserved == (UnservedCity("default", "DFW"),)


def test_a_city_that_is_no_longer_served_keeps_its_spelling() -> None:
    plan = decide_placement(
        workload=workload(default=["dfw"]), bindings=[], deployments=[deployment("DFW")]
    )

    assert plan.wanted == (DFW,)
    assert plan.unserved == (UnservedCity("default", "dfw"),)


def test_cities_keep_the_order_of_the_spec_and_placements_that_of_their_names() -> None:
    plan = decide_placement(
        workload=workload(b=["IAD", "DFW"], a=["LHR"]),
        bindings=[binding("DFW"), binding("IAD"), binding("LHR")],
        deployments=[],
    )

    assert [each.name for each in plan.wanted] == ["web-a-lhr", "web-b-iad", "web-b-dfw"]


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_deployments_under_older_names_the_first_by_name_stays(order: int) -> None:
    found = [deployment("DFW", name="older-a"), deployment("DFW", name="older-b")]

    plan = decide_placement(
        workload=workload(default=["DFW"]), bindings=[binding("DFW")], deployments=found[::order]
    )

    assert [each.name for each in plan.wanted] == ["older-a"]
    assert [each.metadata.name for each in plan.orphans] == ["older-b"]


def test_a_deployment_that_the_spec_no_longer_names_is_an_orphan() -> None:
    left = deployment("LHR")
    other = deployment("DFW", placement="gone")

    plan = decide_placement(
        workload=workload(default=["DFW"]),
        bindings=[binding("DFW"), binding("LHR")],
        deployments=[left, deployment("DFW"), other],
    )

    assert plan.wanted == (DFW,)
    assert sorted(each.metadata.name for each in plan.orphans) == [
        "web-default-lhr",
        "web-gone-dfw",
    ]


@pytest.mark.parametrize(
    "holder",
    [deployment("DFW", uid="another"), deployment("DFW", deleting=True)],
    ids=["of a workload before this one", "of this one, on its way out"],
)
def test_a_deployment_waits_while_its_name_is_taken(holder: Any) -> None:
    plan = decide_placement(
        workload=workload(default=["DFW"]), bindings=[binding("DFW")], deployments=[holder]
    )

    assert plan.wanted == ()
    assert plan.blocked == (DFW,)
    assert plan.orphans == ()


def test_deployments_of_other_workloads_are_ignored() -> None:
    plan = decide_placement(
        workload=workload(default=["DFW"]),
        bindings=[binding("DFW")],
        deployments=[deployment("LHR", uid="another")],
    )

    assert plan.orphans == ()


def test_a_deployment_under_an_older_name_keeps_it() -> None:
    old = deployment("DFW", name="a-name-of-older-rules")

    alone = decide_placement(
        workload=workload(default=["DFW"]), bindings=[binding("DFW")], deployments=[old]
    )
    both = decide_placement(
        workload=workload(default=["DFW"]),
        bindings=[binding("DFW")],
        deployments=[old, deployment("DFW")],
    )

    assert alone.wanted == (WantedDeployment("a-name-of-older-rules", "default", "DFW"),)
    assert both.wanted == (DFW,)
    assert both.orphans == (old,)


def build(template: dict[str, Any], existing: dict[str, Any] | None = None) -> dict[str, Any]:
    spec = {
        "template": template,
        "placements": [
            {"cityCodes": ["Y"]},  # the name was lost
            {"name": "other", "cityCodes": ["X"], "scaleSettings": {"minReplicas": 9}},
            {"name": "default", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 2, "x": 1}},
        ],
    }
    return build_deployment_spec(
        workload_name="web",
        workload_uid="w-1",
        workload_spec=spec,
        wanted=DFW,
        template=keep_restart(template, (existing or {}).get("template") or {}),
    )


def restarted(at: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {RESTARTED: at}}, "spec": {"unknown": 1}}


def test_template_and_scale_settings_are_copied_unchanged() -> None:
    assert build({"spec": {"unknown": {"a": None}}}) == {
        "workloadRef": {"name": "web", "uid": "w-1"},
        "placementName": "default",
        "cityCode": "DFW",
        "template": {"spec": {"unknown": {"a": None}}},
        "scaleSettings": {"minReplicas": 2, "x": 1},
    }


@pytest.mark.parametrize(
    ("workload_at", "deployment_at", "kept"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("2026-01-03T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"),
        ("2026-01-01T01:00:00+02:00", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "soon", "2026-01-01T00:00:00Z"),
        ("soon", "2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00", "2026-01-01T00:00:00Z"),
    ],
)
def test_the_later_restart_counts(workload_at: str, deployment_at: str, kept: str) -> None:
    spec = build(restarted(workload_at), {"template": restarted(deployment_at)})

    assert spec["template"]["metadata"]["annotations"][RESTARTED] == kept


@pytest.mark.parametrize("odd", [7, None, ["2027-01-01T00:00:00Z"], ""])
def test_a_restart_annotation_that_is_no_string_is_ignored(odd: Any) -> None:
    spec = build({"spec": {}}, {"template": {"metadata": {"annotations": {RESTARTED: odd}}}})

    assert spec["template"] == {"spec": {}}


def test_a_template_without_any_annotations_is_read() -> None:
    bare: dict[str, Any] = {"metadata": {"annotations": None}, "spec": {}}

    assert build(bare, {"template": {"metadata": None}})["template"] == bare


@pytest.mark.parametrize("metadata", [None, {"annotations": None}, {"annotations": {}}])
def test_a_restart_is_kept_where_the_template_has_no_annotations(metadata: Any) -> None:
    at = "2026-01-02T00:00:00Z"

    spec = build({"metadata": metadata, "spec": {}}, {"template": restarted(at)})

    assert spec["template"]["metadata"] == {"annotations": {RESTARTED: at}}


def test_a_restart_of_one_city_survives_a_workload_without_one() -> None:
    spec = build({"spec": {}}, {"template": restarted("2026-01-02T00:00:00Z")})

    assert spec["template"] == {
        "spec": {},
        "metadata": {"annotations": {RESTARTED: "2026-01-02T00:00:00Z"}},
    }
