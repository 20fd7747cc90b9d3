"""Scheduling, health and naming, as pure rules."""

from __future__ import annotations

from datum_compute.api import karmada
from datum_compute.standins.karmada import names, schedule
from datum_compute.standins.karmada.probe import Health, decide_health
from datum_compute.standins.karmada.schedule import Member, decide_clusters

CITY = "topology.datum.net/city-code"
ONE_IN_DFW = schedule.parse_placement(
    {
        "clusterAffinity": {"labelSelector": {"matchLabels": {CITY: "DFW"}}},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    }
)
ALL_IN_DFW = schedule.parse_placement(
    {"clusterAffinity": {"labelSelector": {"matchLabels": {CITY: "DFW"}}}}
)


KIND = ("compute.datumapis.com/v1alpha", "WorkloadDeployment")


def member(
    name: str,
    city: str = "DFW",
    *,
    ready: bool = True,
    deleting: bool = False,
    taints: tuple[karmada.Taint, ...] = (),
    serves: tuple[str, str] = KIND,
) -> Member:
    kind = karmada.APIResource(name=serves[1].lower(), kind=serves[1])
    enabled = karmada.APIEnablement(group_version=serves[0], resources=(kind,))
    return Member(name, {CITY: city}, ready, deleting, taints, (enabled,))


def decide(
    placement: karmada.PolicyPlacement, members: list[Member], current: tuple[str, ...]
) -> tuple[str, ...]:
    return decide_clusters(placement, KIND, members, current)


def test_only_ready_members_with_the_label_fit() -> None:
    members = [member("dfw"), member("lhr", "LHR"), member("dfw2", ready=False)]

    assert decide(ALL_IN_DFW, members, ()) == ("dfw",)


def test_without_a_constraint_all_fitting_members_are_selected() -> None:
    assert decide(ALL_IN_DFW, [member("b"), member("a")], ()) == ("a", "b")


def test_a_constraint_of_one_selects_one_member_and_keeps_it() -> None:
    members = [member("a"), member("b")]

    assert decide(ONE_IN_DFW, members, ()) == ("a",)
    assert decide(ONE_IN_DFW, members, ("b",)) == ("b",)


def test_a_member_keeps_an_object_while_it_is_not_ready() -> None:
    members = [member("a"), member("b", ready=False)]

    assert decide(ONE_IN_DFW, members, ("b",)) == ("b",)


def test_a_member_that_is_deleted_or_relabelled_loses_an_object() -> None:
    assert decide(ONE_IN_DFW, [member("a", deleting=True)], ("a",)) == ()
    assert decide(ONE_IN_DFW, [member("a", "LHR")], ("a",)) == ()


def test_fewer_members_than_the_constraint_requires_is_no_fit() -> None:
    two = schedule.parse_placement(
        {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]}
    )

    assert decide(two, [member("a")], ()) == ()


def test_a_member_must_serve_the_kind_unless_it_has_the_object_already() -> None:
    bare = member("a", serves=("v1", "ConfigMap"))

    assert decide(ONE_IN_DFW, [bare, member("b")], ()) == ("b",)
    assert decide(ONE_IN_DFW, [bare], ()) == ()
    assert decide(ONE_IN_DFW, [bare], ("a",)) == ("a",)


def test_a_taint_keeps_new_objects_away_unless_it_is_tolerated() -> None:
    drained = karmada.Taint(key="maintenance", value="yes", effect="NoSchedule")
    tainted = member("a", taints=(drained,))
    mild = member("b", taints=(karmada.Taint(key="slow", effect="PreferNoSchedule"),))
    bearing = {
        "key": {"key": "maintenance", "operator": "Exists"},
        "value": {"key": "maintenance", "value": "yes"},
        "every": {"operator": "Exists", "effect": "NoSchedule"},
    }
    not_bearing = {
        "value": {"key": "maintenance", "value": "no"},
        "key": {"key": "other", "operator": "Exists"},
        "effect": {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"},
    }

    assert decide(ALL_IN_DFW, [tainted, mild], ()) == ("b",)
    assert decide(ALL_IN_DFW, [tainted], ("a",)) == ("a",)
    for toleration in bearing.values():
        placement = schedule.parse_placement({"clusterTolerations": [toleration]})
        assert decide(placement, [tainted], ()) == ("a",)
    for toleration in not_bearing.values():
        placement = schedule.parse_placement({"clusterTolerations": [toleration]})
        assert decide(placement, [tainted], ()) == ()


def probes(*answers: tuple[float, bool]) -> Health:
    health: Health | None = None
    for at, good in answers:
        health = decide_health(health, good=good, at=at)
    assert health is not None
    return health


def test_a_new_member_is_ready_at_its_first_good_probe() -> None:
    assert probes((0, True)).ready
    assert not probes((0, False)).ready
    assert probes((0, False), (1, True)).ready


def test_a_ready_member_becomes_unready_after_failing_for_thirty_seconds() -> None:
    assert probes((0, True), (10, False), (20, False), (30, False)).ready
    assert not probes((0, True), (10, False), (20, False), (30, False), (40, False)).ready


def test_a_good_probe_in_between_restarts_the_count() -> None:
    assert probes((0, True), (10, False), (20, True), (30, False), (50, False)).ready


def test_a_lost_member_becomes_ready_after_succeeding_for_thirty_seconds() -> None:
    lost = ((0, True), (10, False), (40, False))

    assert not probes(*lost).ready
    assert not probes(*lost, (50, True), (70, True)).ready
    assert probes(*lost, (50, True), (70, True), (80, True)).ready


def test_a_work_name_is_readable_and_unique_to_the_identity() -> None:
    plain = names.work_name("WorkloadDeployment", "app-web-dfw", "ns-1")

    assert plain.startswith("app-web-dfw-")
    assert plain == names.work_name("WorkloadDeployment", "app-web-dfw", "ns-1")
    assert plain != names.work_name("WorkloadDeployment", "app-web-dfw", "ns-2")
    assert plain != names.work_name("Instance", "app-web-dfw", "ns-1")


def test_reserved_namespaces_are_karmadas_and_kubernetes_own() -> None:
    reserved = ["karmada-system", "karmada-cluster", "karmada-es-dfw", "kube-system"]

    assert all(names.is_reserved(namespace) for namespace in reserved)
    assert not names.is_reserved("ns-1234")
    assert names.cluster_of("karmada-es-dfw") == "dfw"
    assert names.cluster_of("ns-1234") == ""
