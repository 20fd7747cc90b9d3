"""Objects that cannot be read are set aside by their cache; others are not affected."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.api.meta import Object, Unreadable
from datum_compute.client.protocol import EventType, WatchEvent
from datum_compute.runtime.cache.cache import Cache
from datum_compute.runtime.cache.quarantine import readable, views

KIND = compute.WorkloadDeployment


def deployment(
    name: str, version: int, *, minimum: Any = 1, replicas: Any = 1, uid: str = "u"
) -> Object:
    body = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "WorkloadDeployment",
        "metadata": {"name": name, "uid": f"{name}-{uid}", "resourceVersion": str(version)},
        "spec": {"cityCode": "DFW", "scaleSettings": {"minReplicas": minimum}},
        "status": {"replicas": replicas},
    }
    return Object.from_wire(msgspec.json.encode(body))


class Quarantined:
    """A cache, and the problems that it reported."""

    def __init__(self, *objects: Object) -> None:
        self.problems: list[str] = []
        self.cache = Cache(compute.WORKLOAD_DEPLOYMENTS)
        self.cache.quarantine.on_added = lambda obj: self.problems.append(obj.problem)
        self.cache.replace(objects, "1")

    def change(self, obj: Object, event: EventType = EventType.MODIFIED) -> None:
        self.cache.apply(WatchEvent(event, obj))

    def names(self) -> list[str]:
        return [each.metadata.name for each in views(self.cache.list(), KIND)]


def test_a_list_of_views_leaves_out_what_cannot_be_read() -> None:
    found = Quarantined(deployment("a", 1), deployment("b", 1, minimum=1.5), deployment("c", 1))

    assert found.names() == ["a", "c"]
    assert len(found.cache.quarantine) == 1
    assert found.problems == [
        "spec: Expected `int`, got `float` - at `$.scaleSettings.minReplicas`"
    ]


def test_a_status_that_cannot_be_read_counts_as_none_and_is_reported() -> None:
    found = Quarantined(deployment("a", 1, replicas="many"))

    [view] = views(found.cache.list(), KIND)

    assert view.status == compute.WorkloadDeploymentStatus()
    assert view.spec.city_code == "DFW"
    assert found.problems == ["status: Expected `int`, got `str` - at `$.replicas`"]


def test_a_problem_is_reported_once_and_another_one_again() -> None:
    found = Quarantined(deployment("a", 1, minimum=1.5))
    for version in (2, 3):
        found.names()
        found.change(deployment("a", version, minimum=1.5))
    found.names()
    assert len(found.problems) == 1

    found.change(deployment("a", 4, minimum="two"))
    assert len(found.problems) == 2


def test_an_object_is_released_by_a_readable_version_and_by_its_deletion() -> None:
    broken = (deployment("a", 1, minimum=1.5), deployment("b", 1, replicas=1.5))
    found = Quarantined(*broken)
    found.names()
    assert len(found.cache.quarantine) == 2

    found.change(deployment("a", 2))
    found.change(deployment("b", 3, replicas=1.5), EventType.DELETED)

    assert len(found.cache.quarantine) == 0
    assert found.names() == ["a"]


@pytest.mark.parametrize("minimum", [-1, 1001, 10**9, 2**70])
def test_a_number_beyond_its_bounds_cannot_be_read(minimum: int) -> None:
    """A planner would count up to it."""
    [obj] = [deployment("a", 1, minimum=minimum)]

    assert readable((obj,), KIND) == []
    with pytest.raises(Unreadable, match="minReplicas"):
        obj.view(KIND)


def test_an_index_and_a_subscriber_get_the_objects_beside_an_unreadable_one() -> None:
    found = Quarantined(deployment("a", 1, minimum=1.5), deployment("b", 1))
    found.cache.add_index("city", lambda obj: [obj.view(KIND).spec.city_code])

    assert [each.name for each in found.cache.by_index("city", "DFW")] == ["b"]
