"""A rollout over cities rests while its workload is stopped, and no time of the stop counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from datum_compute.api.compute import v1alpha as compute
from tests.support.decisions.rollouts import World, policy, world

SUSPENDED = compute.ANNOTATION_SUSPENDED


def mark(w: World, value: str, *cities: str) -> None:
    """As the Workload controller and ``stop --city`` do, and their cells stop."""
    for city in cities or tuple(w.cities):
        found = w.cities[city]
        notes = {key: text for key, text in found.annotations.items() if key != SUSPENDED}
        notes |= {SUSPENDED: value} if value else {}
        w.cities[city] = replace(found, annotations=notes, ready=0 if value else found.ready)


def settle(w: World, passes: int = 6) -> None:
    for _ in range(passes):
        w.reconcile()


@pytest.mark.parametrize("value", ["workload", "project"])
@pytest.mark.parametrize("on_failure", ["Pause", "Undo"])
def test_a_stop_in_the_middle_of_a_wave_fails_nothing(value: str, on_failure: str) -> None:
    w = world(policy(waves=[["DFW"], ["IAD", "LHR"]], timeout="10m", onFailure=on_failure))
    w.deploy("v2")
    w.reconcile()
    assert w.images() == {"DFW": "v2", "IAD": "v1", "LHR": "v1"}
    mark(w, value)
    settle(w)
    before = dict(w.cities)
    w.pass_time(seconds=24 * 3600)
    settle(w)
    assert w.cities == before, "nothing is written while it is stopped"
    found = w.plan().progressing
    assert found is not None
    assert (found.reason, "stopped" in found.message) == ("Paused", True)

    mark(w, "")
    settle(w)
    assert w.images() == {"DFW": "v2", "IAD": "v1", "LHR": "v1"}
    w.cities["DFW"] = w.cities["DFW"].rolled()
    settle(w)
    assert w.images() == {"DFW": "v2", "IAD": "v2", "LHR": "v2"}


def test_a_city_that_was_stopped_alone_is_not_waited_for_and_follows() -> None:
    w = world(policy(waves=[["DFW"], ["IAD"], ["LHR"]], timeout="10m", onFailure="Undo"))
    mark(w, "true", "DFW")
    w.deploy("v2")
    settle(w)
    for city in ("IAD", "LHR"):
        w.cities[city] = w.cities[city].rolled()
        settle(w)
    assert w.images() == {"DFW": "v2", "IAD": "v2", "LHR": "v2"}
    w.pass_time(seconds=24 * 3600)
    settle(w)
    mark(w, "", "DFW")
    settle(w)
    found = w.plan().progressing
    assert found is not None
    assert found.reason == "WaveInProgress"
    w.cities["DFW"] = w.cities["DFW"].rolled()
    settle(w)
    found = w.plan().progressing
    assert found is not None
    assert found.reason == "Complete"
