"""Mappings stay on their plane and name their cluster."""

from __future__ import annotations

from datum_compute.api.meta import Object, ObjectMeta, OwnerReference
from datum_compute.fleets.static import StaticFleet
from datum_compute.runtime.request import Request
from datum_compute.runtime.watches.mapping import (
    all_in_fleet,
    all_of,
    by_index,
    controller_owner,
    itself,
)
from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.runtime.fake_plane import WIDGETS, FakePlane
from tests.support.runtime.fleets import running


def _part(*owners: OwnerReference, **labels: str) -> Object:
    metadata = ObjectMeta(name="p", namespace="ns", owner_references=owners, labels=labels)
    return Object("example.com/v1", "Part", metadata)


def _owner(name: str, kind: str = "Widget", *, controller: bool = False) -> OwnerReference:
    api_version = "example.com/v1"
    return OwnerReference(api_version=api_version, kind=kind, name=name, controller=controller)


def test_a_mapping_to_the_object_itself() -> None:
    assert itself("one", _part()) == [Request("one", "ns", "p")]


def test_a_mapping_to_the_controlling_owner_only() -> None:
    part = _part(_owner("a"), _owner("b", controller=True))

    assert controller_owner("Widget")("one", part) == [Request("one", "ns", "b")]
    assert controller_owner("Gadget")("one", part) == []
    assert controller_owner("Widget", group="example.com")("one", part)
    assert controller_owner("Widget", group="example.org")("one", part) == []
    assert controller_owner("Widget")("one", _part(_owner("a"))) == []


def test_a_mapping_to_a_cluster_scoped_owner() -> None:
    part = _part(_owner("a", controller=True))

    to_owner = controller_owner("Widget", namespaced=False)

    assert to_owner("one", part) == [Request("one", "", "a")]


async def test_mappings_to_all_objects_of_a_kind_and_to_those_of_an_index() -> None:
    here, there = FakePlane(), FakePlane()
    here.put("a", metadata={"labels": {"of": "p"}}, namespace="ns")
    here.put("b")
    there.put("c", metadata={"labels": {"of": "p"}}, namespace="ns")
    fleet = StaticFleet("fleet", {"here": here, "there": there}, SimulatedEnvironment())
    a, b = Request("here", "ns", "a"), Request("here", "default", "b")
    c = Request("there", "ns", "c")
    part = _part()
    async with running(fleet):
        for cluster in fleet.clusters():
            cache = cluster.cache(WIDGETS)
            cache.add_index("of", lambda obj: [f"ns/{obj.metadata.labels.get('of')}"])
            await cache.wait_synced()

        assert set(all_of(fleet, WIDGETS)("here", part)) == {a, b}
        assert list(all_of(fleet, WIDGETS, same_namespace=True)("here", part)) == [a]
        assert list(all_of(fleet, WIDGETS)("nowhere", part)) == []
        assert set(all_in_fleet(fleet, WIDGETS)("elsewhere", part)) == {a, b, c}
        named = all_in_fleet(fleet, WIDGETS, where=lambda found, _: found.name == "c")
        assert list(named("elsewhere", part)) == [c]
        assert list(by_index(fleet, WIDGETS, "of")("there", part)) == [c]
        assert list(by_index(fleet, WIDGETS, "of")("nowhere", part)) == []
