"""Every rule on commits can be broken and is then reported; allowed commits break none.

Each test begins with a world in which one Instance runs, is copied to the hub, projected, and
has its claim; the commits under test follow an hour later.
"""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from datum_compute.api import karmada
from datum_compute.api.compute import v1alpha as compute
from tests.support.simulation.commits import RuleChecker, Timeline, Values
from tests.support.simulation.rules import all_rules
from tests.support.simulation.rules.deletions import ACKNOWLEDGE_MILLISECONDS

PROJECT, HUB, CELL = "project/demo", "hub", "cell/dfw"
SHARED = "ns-n1"
HOUR = 3_600_000
GRACE = 90_000

UPSTREAM = {
    compute.LABEL_UPSTREAM_CLUSTER_NAME: "cluster-demo",
    compute.LABEL_UPSTREAM_NAMESPACE: "default",
}
OWN = {
    compute.LABEL_WORKLOAD_DEPLOYMENT_UID: "cell-d",
    compute.LABEL_SOURCE_CLUSTER: "dfw",
    compute.LABEL_INSTANCE_NAMESPACE: SHARED,
}
CITY = {compute.LABEL_TOPOLOGY_CITY_CODE: "DFW"}
GATED = {"controller": {"schedulingGates": [{"name": compute.GATE_QUOTA}]}}
INSTANCES = "compute.datumapis.com/instances"


def made(name: str, uid: str, namespace: str = SHARED, **rest: Any) -> Values:
    """An object; ``labels``, ``annotations`` and ``owner`` go into its metadata."""
    metadata: Values = {"name": name, "uid": uid, "generation": 1}
    if namespace:
        metadata["namespace"] = namespace
    for part in ("labels", "annotations", "generation", "deletionTimestamp"):
        if part in rest:
            metadata[part] = rest.pop(part)
    if owner := rest.pop("owner", ""):
        metadata["ownerReferences"] = [{"kind": "WorkloadDeployment", "name": "web", "uid": owner}]
    return {"metadata": metadata, "spec": {}, **rest}


def true(*types: str, **more: Any) -> Values:
    return {"conditions": [{"type": each, "status": "True"} for each in types], **more}


def deployment(uid: str, namespace: str = SHARED, *, count: int = 1, **rest: Any) -> Values:
    spec = {"scaleSettings": {"minReplicas": count}, "workloadRef": {"uid": "w"}}
    return made("web", uid, namespace, spec=spec, labels=CITY, **rest)


def counts(replicas: int, ready: int, observed: int = 1) -> Values:
    return {
        "replicas": replicas,
        "currentReplicas": ready,
        "updatedReplicas": ready,
        "readyReplicas": ready,
        "desiredReplicas": 1,
        "observedGeneration": observed,
    }


def claim(name: str = "instance-web-0", uid: str = "claim", amount: int = 1) -> Values:
    allocation = {"resourceType": INSTANCES, "status": "Granted", "allocatedAmount": amount}
    status = true("Granted", allocations=[allocation])
    return made(name, uid, "default", labels=OWN, status=status)


def instance(name: str = "web-0", uid: str = "i0", address: str = "10.128.0.2") -> Values:
    interfaces = [{"assignments": {"networkIP": address}}]
    status = true("Ready", "QuotaGranted", networkInterfaces=interfaces)
    return made(name, uid, labels=OWN, status=status)


def shown(uid: str, namespace: str, owner: str, of: str = "i0") -> Values:
    notes = {compute.ANNOTATION_INSTANCE_UID: of}
    return made("web-0", uid, namespace, labels=OWN, annotations=notes, owner=owner)


class World:
    def __init__(self) -> None:
        self.ordered: set[str] = set()
        self.auditor = RuleChecker(all_rules(self.ordered), GRACE)
        self.time = 0
        bucket = {"resourceType": INSTANCES}
        for plane, kind, obj in (
            (PROJECT, "namespaces", made("default", "n1", "")),
            (HUB, "namespaces", made(SHARED, "n2", "", labels=UPSTREAM)),
            (CELL, "namespaces", made(SHARED, "n3", "", labels=UPSTREAM)),
            (PROJECT, "allowancebuckets", made("b", "b", "m", spec=bucket, status={"limit": 2})),
            (PROJECT, "workloads", made("web", "w", "default")),
            (PROJECT, "workloaddeployments", deployment("project-d", "default")),
            (HUB, "propagationpolicies", made("city-dfw", "p")),
            (HUB, "workloaddeployments", deployment("hub-d")),
            (CELL, "workloaddeployments", deployment("cell-d")),
            (CELL, "instances", instance()),
            (HUB, "instances", shown("hub-i", SHARED, "hub-d")),
            (PROJECT, "instances", shown("project-i", "default", "project-d")),
            (PROJECT, "resourceclaims", claim()),
        ):
            self.commit(plane, kind, obj)
        assert self.broken == []
        self.time = HOUR

    @property
    def broken(self) -> list[str]:
        return self.auditor.broken

    def commit(self, plane: str, kind: str, obj: Values, *, gone: bool = False) -> None:
        for change in self.auditor.planes.take(plane, kind, self.time, deepcopy(obj), gone=gone):
            self.auditor.check(change)

    def remove(self, plane: str, kind: str, obj: Values) -> None:
        self.commit(plane, kind, obj, gone=True)

    def breaks(self, words: str) -> bool:
        return len(self.broken) == 1 and words in self.broken[0]


def test_granting_more_than_the_limit_breaks_a_rule() -> None:
    world = World()
    world.commit(PROJECT, "resourceclaims", claim("instance-web-1", "c1"))
    assert world.broken == []

    world.commit(PROJECT, "resourceclaims", claim("instance-web-2", "c2"))

    assert world.breaks("3 compute.datumapis.com/instances are granted on project/demo")


def test_a_limit_counts_for_a_grace_period_after_it_was_lowered() -> None:
    world = World()
    bucket = made("b", "b", "m", spec={"resourceType": INSTANCES}, status={"limit": 1})
    world.commit(PROJECT, "allowancebuckets", bucket)
    world.commit(PROJECT, "resourceclaims", claim("instance-web-1", "c1"))
    assert world.broken == []
    world.remove(PROJECT, "resourceclaims", claim("instance-web-1", "c1"))

    world.time += HOUR
    world.commit(PROJECT, "resourceclaims", claim("instance-web-1", "c1"))

    assert world.breaks("the limit is 1")


def test_releasing_a_claim_whose_ordinal_is_wanted_breaks_a_rule() -> None:
    world = World()

    world.remove(PROJECT, "resourceclaims", claim())

    assert world.breaks("was released while [1] Instances were wanted")


def test_releasing_a_claim_after_scale_down_or_by_hand_breaks_no_rule() -> None:
    world = World()
    world.commit(CELL, "workloaddeployments", deployment("cell-d", count=0))
    world.remove(PROJECT, "resourceclaims", claim())
    world.commit(CELL, "workloaddeployments", deployment("cell-d", count=1))
    world.time += HOUR
    world.commit(PROJECT, "resourceclaims", claim(uid="another"))
    world.ordered.add("another")
    world.remove(PROJECT, "resourceclaims", claim(uid="another"))

    assert world.broken == []


def test_losing_a_grant_breaks_a_rule() -> None:
    world = World()
    world.commit(CELL, "instances", {**instance(), "status": true("Ready")})

    assert world.breaks("lost its grant")


def test_removing_the_quota_gate_without_a_claim_breaks_a_rule() -> None:
    world = World()
    one, two = instance(), instance("web-1", "i1", "10.128.0.3")
    for obj in (one, two):
        world.commit(CELL, "instances", {**obj, "spec": GATED})
    world.commit(CELL, "instances", one)
    assert world.broken == []

    world.commit(CELL, "instances", two)

    assert world.breaks("web-1 on cell/dfw was let through the Quota gate without a claim")


@pytest.mark.parametrize(
    ("plane", "copy", "words"),
    [
        (HUB, shown("x", SHARED, ""), "is owned by []"),
        (PROJECT, shown("x", "default", ""), "is owned by []"),
        (PROJECT, shown("x", "default", "hub-d"), "is owned by ['hub-d']"),
        (PROJECT, shown("x", "default", "project-d", "made-up"), "which no cell ever had"),
    ],
    ids=["a hub copy", "a projection", "by one of another plane", "of nothing"],
)
def test_a_copy_without_an_owner_or_an_instance_breaks_a_rule(
    plane: str, copy: Values, words: str
) -> None:
    world = World()
    world.commit(plane, "instances", {**copy, "metadata": {**copy["metadata"], "name": "web-9"}})

    assert world.breaks(words)


def test_a_copy_that_changes_its_instance_breaks_a_rule() -> None:
    world = World()
    world.commit(CELL, "instances", instance(uid="i1"))
    world.commit(HUB, "instances", shown("another", SHARED, "hub-d", "i1"))
    assert world.broken == []

    world.commit(PROJECT, "instances", shown("project-i", "default", "project-d", "i1"))

    assert world.breaks("showed i0, and with the same age shows i1")


def test_a_copy_with_another_source_cluster_breaks_a_rule() -> None:
    world = World()
    labels = {**OWN, compute.LABEL_SOURCE_CLUSTER: "lhr"}
    copy = shown("hub-i", SHARED, "hub-d")
    copy["metadata"]["labels"] = labels

    world.commit(HUB, "instances", copy)

    assert world.breaks("of dfw names lhr as its source")


@pytest.mark.parametrize(
    ("plane", "copy", "where"),
    [
        (HUB, shown("hub-i", SHARED, "hub-d"), "cell/dfw"),
        (PROJECT, shown("project-i", "default", "project-d"), "hub"),
    ],
)
def test_deleting_a_copy_of_an_existing_instance_breaks_a_rule(
    plane: str, copy: Values, where: str
) -> None:
    world = World()
    world.remove(plane, "instances", copy)
    assert world.breaks(f"was deleted while what it shows is on {where}")

    world = World()
    world.ordered.add(copy["metadata"]["uid"])
    world.remove(plane, "instances", copy)
    assert world.broken == []

    world = World()
    world.remove(CELL, "instances", instance())
    world.remove(HUB, "instances", shown("hub-i", SHARED, "hub-d"))
    world.remove(PROJECT, "instances", shown("project-i", "default", "project-d"))
    assert world.broken == []


def test_deleting_a_workload_before_its_deployments_breaks_a_rule() -> None:
    world = World()
    world.remove(PROJECT, "workloads", made("web", "w", "default"))

    assert world.breaks("was let go while there were ['web']")


def test_deleting_a_cells_deployment_before_its_instances_breaks_a_rule() -> None:
    world = World()
    world.remove(CELL, "workloaddeployments", deployment("cell-d"))

    assert world.breaks("was let go while there were ['web-0']")


def test_deleting_a_projects_deployment_before_its_hub_objects_breaks_a_rule() -> None:
    world = World()
    binding = "web-workloaddeployment"
    notes = {
        karmada.ANNOTATION_BINDING_NAMESPACE: SHARED,
        karmada.ANNOTATION_BINDING_NAME: binding,
    }
    world.commit(HUB, "resourcebindings", made(binding, "r"))
    world.commit(HUB, "works", made("work", "k", "karmada-es-dfw", annotations=notes))
    world.time += HOUR

    world.remove(PROJECT, "workloaddeployments", deployment("project-d", "default"))

    assert world.breaks("['Work work', 'resourcebindings', 'workloaddeployments']")


def drained(
    world: World,
    *,
    ready: str = "True",
    left: int = 0,
    asked: int = 0,
    desired: int = 0,
    waited: int = 1000,
) -> None:
    """Delete the hub copy after its cell has reported these counters."""
    cluster = made("dfw", "k", "", status={"conditions": [{"type": "Ready", "status": ready}]})
    binding = made("web-workloaddeployment", "r", spec={"clusters": [{"name": "dfw"}]})
    world.commit(HUB, "clusters", cluster)
    world.commit(HUB, "resourcebindings", binding)
    world.time += GRACE + 1
    deleted_at = datetime.fromtimestamp(world.time / 1000, UTC).isoformat()
    ending = deployment("project-d", "default", deletionTimestamp=deleted_at)
    world.commit(PROJECT, "workloaddeployments", ending)
    reported = {**counts(left, left), "desiredReplicas": desired}
    world.commit(CELL, "workloaddeployments", deployment("cell-d", status=reported))
    copy = deployment("hub-d", count=asked, status=reported)
    world.time += waited
    world.commit(HUB, "workloaddeployments", copy)
    world.remove(HUB, "workloaddeployments", copy)


def test_a_hub_copy_may_be_deleted_only_once_its_cell_reports_zero() -> None:
    world = World()
    drained(world)
    assert world.broken == []
    world = World()
    drained(world, left=1, ready="False")
    assert world.broken == []
    world = World()
    drained(world, left=1)
    assert world.breaks("was deleted while 0 were desired, and 1 reported")
    world = World()
    drained(world, asked=1)
    assert world.breaks("was deleted while 1 were desired, and 0 reported")


def test_a_hub_copy_may_be_deleted_early_where_its_cell_acknowledges_nothing() -> None:
    world = World()
    drained(world, left=1, desired=1, waited=ACKNOWLEDGE_MILLISECONDS + 1)
    assert world.broken == []
    world = World()
    drained(world, left=1, desired=1, waited=ACKNOWLEDGE_MILLISECONDS - 1)
    assert world.breaks("was deleted while 0 were desired, and 1 reported")
    world = World()
    drained(world, left=1, waited=ACKNOWLEDGE_MILLISECONDS + 1)
    assert world.breaks("was deleted while 0 were desired, and 1 reported")


def test_a_hub_copy_may_be_deleted_once_its_cell_has_reported_zero_whatever_follows() -> None:
    world = World()
    reported = {**counts(0, 0), "desiredReplicas": 0}
    world.commit(CELL, "workloaddeployments", deployment("cell-d", status=reported))
    world.commit(HUB, "workloaddeployments", deployment("hub-d", count=0, status=reported))
    drained(world, left=1)
    assert world.broken == []


def test_deleting_a_hub_copy_that_its_project_wants_breaks_a_rule() -> None:
    world = World()
    world.remove(HUB, "workloaddeployments", deployment("hub-d"))

    assert world.breaks("was deleted while its project has it")


def test_an_object_created_within_the_grace_breaks_no_deletion_rule() -> None:
    world = World()
    world.remove(CELL, "instances", instance())
    world.commit(CELL, "instances", instance(uid="i1"))
    world.remove(CELL, "workloaddeployments", deployment("cell-d"))

    assert world.broken == []


def test_deleting_a_policy_before_its_deployments_breaks_a_rule() -> None:
    world = World()
    world.commit(
        HUB, "propagationpolicies", made("city-dfw", "p", deletionTimestamp="2026-01-01T00:00:00Z")
    )

    assert world.breaks("was deleted while it routes web")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (counts(-1, -1), "counts"),
        (counts(1, 2), "counts"),
        (counts(1, 1, observed=2), "was observed at 2"),
    ],
)
def test_an_impossible_report_breaks_a_rule(status: Values, words: str) -> None:
    world = World()
    world.commit(PROJECT, "workloads", made("web", "w", "default", status=status))

    assert world.breaks(words)


def test_counters_that_differ_from_the_cells_instances_break_a_rule() -> None:
    world = World()
    world.commit(CELL, "workloaddeployments", deployment("cell-d", status=counts(1, 1)))
    assert world.broken == []

    world.commit(CELL, "workloaddeployments", deployment("cell-d", status=counts(2, 1)))

    assert world.breaks("there were 1, and 1 of them Ready")


def test_a_report_that_is_altered_or_older_breaks_a_rule() -> None:
    world = World()
    places = ((CELL, "cell-d", SHARED), (HUB, "hub-d", SHARED), (PROJECT, "project-d", "default"))

    def report(plane: str, uid: str, namespace: str, status: Values) -> None:
        world.commit(plane, "workloaddeployments", deployment(uid, namespace, status=status))

    for status in (counts(1, 0), counts(1, 1)):
        for place in places:
            report(*place, status)
    assert world.broken == []

    report(*places[2], counts(1, 0))
    assert world.breaks("again, the last ones were")

    world.broken.clear()
    report(*places[1], counts(0, 0))
    assert world.breaks("workloaddeployments ns-n1/web on hub reports")


def subnet(name: str, start: str) -> Values:
    spec = {
        "startAddress": start,
        "prefixLength": 20,
        "networkContext": {"name": f"default-{name}"},
        "location": {"name": name},
    }
    return made(name, f"subnet {name}", spec=spec)


def test_overlapping_ranges_of_a_network_break_a_rule() -> None:
    world = World()
    world.commit(CELL, "subnets", subnet("dfw", "10.128.0.0"))
    world.commit("cell/iad", "subnets", subnet("iad", "10.128.16.0"))
    assert world.broken == []

    world.commit("cell/sin", "subnets", subnet("sin", "10.128.16.0"))

    assert world.breaks("as iad on cell/iad has")


def test_an_address_shared_beyond_the_grace_breaks_a_rule() -> None:
    world = World()
    world.commit(CELL, "instances", instance("web-1", "i1"))
    assert world.broken == []

    world.time += GRACE + 1
    world.commit(PROJECT, "workloads", made("web", "w", "default"))

    assert world.breaks("have had 10.128.0.2 since")


def test_an_address_shared_within_the_grace_breaks_no_rule() -> None:
    world = World()
    world.commit(CELL, "instances", instance("web-1", "i1"))
    world.commit(CELL, "instances", instance("web-1", "i1", "10.128.0.3"))
    world.time += GRACE + 1
    world.commit(PROJECT, "workloads", made("web", "w", "default"))

    assert world.broken == []


def test_a_timeline_lists_the_values_of_a_period() -> None:
    line: Timeline[int] = Timeline()
    assert line.within(50, 10) == []
    for time, value in ((0, 1), (10, 2), (20, 2), (30, 3)):
        line.set(time, value)

    assert line.within(50, 10) == [3]
    assert line.within(50, 20) == [2, 3]
    assert line.within(50, 45) == [1, 2, 3]
