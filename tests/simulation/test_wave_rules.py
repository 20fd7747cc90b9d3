"""Every rule on rollouts in waves can be broken and is then reported; allowed commits break none.

Each test begins with two cities that have completed the first template.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances.revisions import template_hash
from datum_compute.decisions.rollout.state import RolloutOutcome, RolloutState
from tests.support.simulation.commits import RuleChecker, Values
from tests.support.simulation.rules.waves import WaveRules

PROJECT = "project/demo"
GRACE = 90_000
SOAK = 60_000
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def template(image: str) -> Values:
    return {"spec": {"runtime": {"sandbox": {"containers": [{"name": "app", "image": image}]}}}}


class World:
    def __init__(self, on_failure: str = "Pause") -> None:
        self.rules = RuleChecker([WaveRules()], GRACE)
        self.time = 0
        self.notes = {
            compute.ANNOTATION_ROLLOUT: json.dumps(
                {"waves": "each", "soak": "60s", "onFailure": on_failure}
            )
        }
        self.image = "v1"
        self.deploy("v1")
        for city in ("DFW", "LHR"):
            self.write(city, "v1")
            self.passes(SOAK)
            self.write(city, "v1", "done")
        self.deploy("v2")
        self.passes(10 * GRACE)
        assert self.broken == []

    @property
    def broken(self) -> list[str]:
        return self.rules.broken

    def breaks(self, words: str) -> bool:
        return len(self.broken) == 1 and words in self.broken[0]

    def passes(self, milliseconds: int) -> None:
        self.time += milliseconds

    def deploy(self, image: str) -> None:
        self.image = image
        self.annotate()

    def annotate(self, **notes: str) -> None:
        """``HASH`` stands for that of the present template."""
        hash = template_hash(template(self.image))
        for key, text in notes.items():
            self.notes[f"compute.datumapis.com/rollout-{key}"] = text.replace("HASH", hash)
        spec = {
            "template": template(self.image),
            "placements": [{"name": "main", "cityCodes": ["DFW", "LHR"]}],
        }
        metadata = {"name": "web", "uid": "w", "generation": 1, "annotations": dict(self.notes)}
        self._commit("workloads", {"metadata": {"namespace": "a", **metadata}, "spec": spec})

    def write(self, city: str, image: str, outcome: str = "", *, ready: bool = True) -> None:
        """A deployment with a state of the present rollout."""
        state = RolloutState(
            template_hash(template(self.image)),
            generation=int(self.image[1:]),
            opened_at=MOMENT,
            outcome=RolloutOutcome(outcome),
        )
        counters = ("replicas", "updatedReplicas", "readyReplicas", "desiredReplicas")
        obj: dict[str, Any] = {
            "metadata": {
                "name": f"web-{city}",
                "namespace": "a",
                "uid": city,
                "generation": 1,
                "annotations": {compute.ANNOTATION_ROLLOUT_STATE: state.to_annotation()},
            },
            "spec": {"template": template(image), "cityCode": city, "workloadRef": {"name": "web"}},
            "status": {**dict.fromkeys(counters, 1), "observedGeneration": int(ready)},
        }
        self._commit("workloaddeployments", obj)

    def _commit(self, kind: str, obj: Values) -> None:
        for change in self.rules.planes.take(PROJECT, kind, self.time, obj, gone=False):
            self.rules.check(change)


def test_waves_that_follow_each_other_break_no_rule() -> None:
    world = World()
    for city in ("DFW", "LHR"):
        world.write(city, "v2", ready=False)
        world.passes(1000)
        world.write(city, "v2")
        world.passes(SOAK)
        world.write(city, "v2", "done")
        world.passes(1000)

    assert world.broken == []


def test_a_wave_that_opens_before_the_one_before_is_complete_breaks_a_rule() -> None:
    world = World()
    world.write("DFW", "v2")
    world.passes(1000)

    world.write("LHR", "v2", ready=False)

    assert world.breaks("in wave 2, 0 are complete")


@pytest.mark.parametrize("on_failure", ["Pause", "Continue"])
def test_a_wave_opens_after_a_failed_one_only_where_the_policy_says_so(on_failure: str) -> None:
    world = World(on_failure)
    world.write("DFW", "v2", "failed", ready=False)
    world.passes(1000)

    world.write("LHR", "v2", ready=False)

    assert (world.broken == []) is (on_failure == "Continue")


def test_a_user_opens_a_wave_early() -> None:
    world = World()
    world.write("DFW", "v2")
    world.annotate(promoted="HASH/2")

    world.write("LHR", "v2", ready=False)

    assert world.broken == []


def test_a_template_that_completes_before_its_soak_breaks_a_rule() -> None:
    world = World()
    world.write("DFW", "v2", ready=False)
    world.passes(2 * GRACE)
    world.write("DFW", "v2")
    world.passes(SOAK - 1)

    world.write("DFW", "v2", "done")

    assert world.breaks("before it was ready for 0:01:00")


def test_a_template_that_completes_when_it_is_given_breaks_a_rule() -> None:
    world = World()

    world.write("DFW", "v2", "done", ready=False)

    assert world.breaks("before it was ready for")


def test_an_interruption_begins_the_soak_anew_unless_it_was_just_now() -> None:
    world = World()
    world.write("DFW", "v2")
    world.passes(SOAK)
    world.write("DFW", "v2", ready=False)
    world.passes(1000)
    world.write("DFW", "v2", "done", ready=False)  # decided before the report arrived
    assert world.broken == []

    world = World()
    world.write("DFW", "v2")
    world.passes(SOAK)
    world.write("DFW", "v2", ready=False)
    world.passes(2 * GRACE)
    world.write("DFW", "v2")
    world.passes(1000)
    world.write("DFW", "v2", "done")
    assert world.breaks("before it was ready for")


def test_a_city_that_is_given_a_template_in_a_pause_breaks_a_rule() -> None:
    world = World()
    world.annotate(paused="ana")
    world.passes(2 * GRACE)

    world.write("DFW", "v2", ready=False)

    assert world.breaks("although the rollout is paused")


def test_a_pause_counts_after_the_grace() -> None:
    world = World()
    world.annotate(paused="ana")
    world.passes(1000)

    world.write("DFW", "v2", ready=False)

    assert world.broken == []


def test_a_city_that_runs_what_was_undone_there_breaks_a_rule() -> None:
    world = World("Undo")
    world.write("DFW", "v2", ready=False)
    world.passes(1000)

    world.write("DFW", "v2", "undone", ready=False)

    assert world.breaks("which was undone there")


def test_a_city_that_is_given_what_was_undone_elsewhere_breaks_a_rule() -> None:
    world = World("Undo")
    world.write("DFW", "v2", ready=False)
    world.passes(1000)
    world.write("DFW", "v1", "undone", ready=False)
    world.passes(2 * GRACE)
    assert world.broken == []

    world.write("LHR", "v2", ready=False)

    assert world.breaks("in wave 2, -1 are complete")
