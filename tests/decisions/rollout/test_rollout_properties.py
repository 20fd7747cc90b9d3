"""What a rollout promises, whatever happens while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.rollout.plan import RolloutPlan
from tests.support.decisions.builders import NOW
from tests.support.decisions.rollouts import (
    CITIES,
    City,
    World,
    image_in,
    name_of,
    policy,
    recorded,
    template,
    world,
)

SOAK = timedelta(seconds=60)
ON_FAILURE = ("Pause", "Undo", "Continue")
randoms = st.randoms(use_true_random=False)


def waved(on_failure: str = "Pause", **more: Any) -> World:
    cities = [["DFW"], ["IAD"], ["LHR"]]
    return world(policy(waves=cities, soak="60s", timeout="10m", onFailure=on_failure, **more))


class Story:
    """A rollout to which things happen, with the promises checked at each write."""

    def __init__(self, w: World, random: Random, *, wipes: bool = True) -> None:
        self.w = w
        self.random = random
        self.wipes = wipes
        self.bad: set[str] = set()
        self.ready_since: dict[str, Any] = {}
        """By city: since when it has been ready with the newest template, in each decision."""
        self.soaked: set[tuple[str, str]] = set()
        """City and hash that were ready for the whole soak."""

    def decide(self) -> RolloutPlan:
        plan = self.w.plan()
        self._watch()
        self._check(plan)
        return plan

    def step(self) -> None:
        plan = self.decide()
        if self.random.random() < 0.2:
            count = self.random.randint(0, 3)
            self.w.apply(plan, only=self.random.sample(CITIES, count))  # a crash between writes
        else:
            self.w.apply(plan)
        self._happen(plan)

    def _watch(self) -> None:
        for city, each in self.w.cities.items():
            newest = each.image == image_in(self.w.template)
            counters = {each.updated, each.ready, each.replicas}
            ready = each.observed == each.generation and counters == {1} and each.reachable
            if not (newest and ready):
                self.ready_since.pop(city, None)
                continue
            since = self.ready_since.setdefault(city, self.w.now)
            if self.w.now < since:  # the clock was set back
                since = self.ready_since[city] = self.w.now
            if self.w.now - since >= SOAK:
                self.soaked.add((city, self.w.hash))

    def _check(self, plan: RolloutPlan) -> None:
        moved = [
            city
            for city in CITIES
            if city in self.w.cities
            and image_in(plan.steps[name_of(city)].template) != self.w.cities[city].image
        ]
        if self.w.annotations.get(compute.ANNOTATION_ROLLOUT_PAUSED):
            assert moved == []
        newest = image_in(self.w.template)
        opened = [c for c in moved if image_in(plan.steps[name_of(c)].template) == newest]
        assert len(opened) <= 1
        for city in opened:
            for earlier in CITIES[: CITIES.index(city)]:
                done = (earlier, self.w.hash) in self.soaked
                state = self.w.cities[earlier].state
                failed = state is not None and state.outcome == "failed"
                assert done or (failed and "Continue" in self.w.policy)

    def _happen(self, plan: RolloutPlan) -> None:
        w, random = self.w, self.random
        city = random.choice(CITIES)
        each = w.cities.get(city)
        what = random.choice(
            ["report"] * 4
            + ["time"] * 3
            + ["break", "away", "back", "wipe", "deploy", "pause", "resume", "scale", "lost state"]
            + ["clock"]
        )
        if what == "time":
            w.now = plan.look_again or w.now + timedelta(seconds=random.randint(1, 90))
        elif what == "clock":
            w.now += timedelta(seconds=random.randint(-300, -1))
        elif what == "deploy" and random.random() < 0.3:
            w.deploy(random.choice(["v1", "v2", "v3", "v4"]))
            self.ready_since.clear()
            self.soaked.clear()
        elif what == "pause":
            w.mark(compute.ANNOTATION_ROLLOUT_PAUSED, "me")
        elif what == "resume":
            w.annotations.pop(compute.ANNOTATION_ROLLOUT_PAUSED, None)
        elif what == "scale":
            w.generation += 1
        elif each is not None:
            w.cities[city] = self._changed(each, what)

    def _changed(self, each: City, what: str) -> City:
        if what == "report":
            return each.broken() if each.image in self.bad else each.rolled()
        if what == "break":
            return each.broken(self.random.choice(["InstanceCrashing", "ProvisioningInstances"]))
        if what in ("away", "back"):
            return replace(each, reachable=what == "back")
        if what == "wipe":
            return each.wiped()
        if what == "lost state" and self.wipes:
            left = {k: t for k, t in each.annotations.items() if "rollout-state" not in k}
            return replace(each, annotations=left)
        return each


@given(st.sampled_from(ON_FAILURE), randoms)
@settings(max_examples=30)
def test_no_city_gets_a_template_before_the_wave_before_it_has_soaked(
    on_failure: str, random: Random
) -> None:
    """Nor more than one city at a time, nor any while the rollout is paused; whatever is lost or
    wiped, and however often the process ends between two writes."""
    w = waved(on_failure)
    w.deploy("v2")
    story = Story(w, random)
    for _ in range(60):
        story.step()


@given(st.sampled_from(ON_FAILURE), st.integers(0, 60), randoms)
@settings(max_examples=20)
def test_a_change_at_any_moment_ends_with_the_newest_template_everywhere(
    on_failure: str, steps: int, random: Random
) -> None:
    w = waved(on_failure)
    w.deploy("v2")
    story = Story(w, random)
    for _ in range(steps):
        story.step()
    w.annotations.clear()
    w.cities = {city: each.rolled() for city, each in w.cities.items()}
    w.deploy("v5")
    w.settle(limit=120)
    assert set(w.images().values()) == {"v5"}
    assert w.plan().progressing is not None
    assert w.plan().progressing.reason == "Complete"  # type: ignore[union-attr]


@given(st.integers(0, 40), randoms)
@settings(max_examples=20)
def test_after_an_undo_every_city_runs_the_last_template_that_completed_there(
    steps: int, random: Random
) -> None:
    """Through changes that never complete, and crashes between the writes of the undo."""
    w = waved("Undo")
    story = Story(w, random, wipes=False)
    story.bad = {"v2", "v3", "v4", "v6"}
    good = dict.fromkeys(CITIES, "v1")
    for _ in range(steps):
        if random.random() < 0.1:
            w.deploy(random.choice(["v2", "v3", "v4"]))
            story.ready_since.clear()
            story.soaked.clear()
        plan = story.decide()
        w.apply(plan, only=random.sample(CITIES, random.randint(0, 3)))
        city = random.choice(CITIES)
        w.cities[city] = story._changed(w.cities[city], "report")
        w.now += timedelta(seconds=random.randint(0, 40))
    w.deploy("v6")
    w.settle(bad=sorted(story.bad), limit=120)
    assert w.images() == good
    assert w.plan().progressing.reason == "RolledBack"  # type: ignore[union-attr]


# Every small world: two cities in two waves, each in every state.

STATES: tuple[dict[str, str], ...] = (
    {},
    recorded("v1"),
    recorded("v1", "failed", good="v0"),
    *(
        recorded("v2", outcome, generation=2, good="v1", ready_since=since)
        for outcome, since in (
            ("", None),
            ("", NOW - 2 * SOAK),
            ("done", NOW),
            ("failed", None),
            ("undone", None),
            ("skipped", None),
        )
    ),
    recorded("v2", generation=1),
)
REPORTS: tuple[Callable[[City], City], ...] = (
    City.rolled,
    City.broken,
    City.wiped,
    lambda each: replace(each.rolled(), reachable=False),
)


def every_city() -> Iterator[City | None]:
    yield None
    for image, notes, report in product(("v1", "v2"), STATES, REPORTS):
        yield report(City(template(image), notes, generation=2))


def every_world(on_failure: str) -> Iterator[World]:
    text = policy(waves=[["DFW"], ["IAD"]], soak="60s", onFailure=on_failure)
    cities = list(every_city())
    for dfw, iad in product(cities, repeat=2):
        found = {city: each for city, each in (("DFW", dfw), ("IAD", iad)) if each is not None}
        now = NOW + timedelta(hours=1)
        yield World(text, template("v2"), found, now=now, generation=3, named=("DFW", "IAD"))


def outcome_of(w: World, city: str) -> str | None:
    """The outcome that counts for the present rollout."""
    states = [each.state for each in w.cities.values() if each.state is not None]
    newest = max((each.generation for each in states), default=0)
    state = w.cities[city].state if city in w.cities else None
    if state is None or (state.hash, state.generation) != (w.hash, newest):
        return None
    return state.outcome.value


@pytest.mark.parametrize("on_failure", ON_FAILURE)
def test_rules_hold_for_every_small_world(on_failure: str) -> None:
    for w in every_world(on_failure):
        plan = w.plan()
        dfw, iad = w.cities.get("DFW"), w.cities.get("IAD")
        given_images = {city: image_in(plan.steps[name_of(city)].template) for city in w.named}
        undone = "undone" in (outcome_of(w, "DFW"), outcome_of(w, "IAD"))
        # The second wave opens only on a first that is recorded as finished.
        finished = outcome_of(w, "DFW") == "done" or (
            outcome_of(w, "DFW") == "failed" and on_failure == "Continue"
        )
        if iad is not None and iad.image == "v1" and given_images["IAD"] == "v2":
            assert not undone
            assert finished or outcome_of(w, "IAD") is not None
        # What has the newest template loses it only to an undo, and only to its last good one.
        for city, each in (("DFW", dfw), ("IAD", iad)):
            if each is not None and each.image == "v2" and given_images[city] != "v2":
                assert undone or (on_failure == "Undo" and plan.progressing is not None)
                assert plan.progressing is not None
                assert plan.progressing.reason == "RolledBack"
        if undone:  # what is undone stays so
            w.apply(plan)
            again = w.plan()
            assert {city: image_in(again.steps[name_of(city)].template) for city in w.named} == (
                given_images
            )


def test_a_pause_stops_every_small_world() -> None:
    for w in every_world("Undo"):
        w.mark(compute.ANNOTATION_ROLLOUT_PAUSED, "me")
        plan = w.plan()
        for city, each in w.cities.items():
            if outcome_of(w, city) in (None, "done"):
                assert plan.steps[name_of(city)].template == each.template or (
                    outcome_of(w, city) == "done" and each.image == "v1"  # put back after a change
                )


def test_an_empty_policy_gives_every_small_world_the_template_and_nothing_else() -> None:
    for w in every_world("Pause"):
        w.policy = "{}"
        plan = w.plan()
        for step in plan.steps.values():
            assert (image_in(step.template), step.state, step.last_good) == ("v2", None, None)
        assert (plan.progressing, plan.look_again, plan.outdated) == (None, None, frozenset())
