"""What a rollout promises, whatever happens while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import islice, product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.rollout.members import RolloutStep
from datum_compute.decisions.rollout.plan import RolloutPlan
from datum_compute.decisions.rollout.state import find_state
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


def images_in(plan: RolloutPlan, w: World) -> dict[str, str]:
    """What the plan gives to each city."""
    return {city: image_in(plan.steps[name_of(city)].template) for city in w.named}


def moved(plan: RolloutPlan, w: World) -> dict[str, str]:
    """The images of cities that get another one."""
    return {
        city: image
        for city, image in images_in(plan, w).items()
        if city in w.cities and w.cities[city].image != image
    }


class Story:
    """A rollout to which things happen, with the promises checked at each write."""

    def __init__(self, w: World, random: Random) -> None:
        self.w = w
        self.random = random
        self.bad: set[str] = set()
        self.ready_since: dict[tuple[str, str], float] = {}
        """By city and image: since when it has been ready with it."""
        self.soaked: set[tuple[str, str]] = set()
        """Cities, with the images with which they were ready for the whole soak."""

    def decide(self) -> RolloutPlan:
        plan = self.w.plan()
        self._check(plan)
        return plan

    def step(self) -> None:
        plan = self.decide()
        if self.random.random() < 0.2:
            count = self.random.randint(0, 3)
            self.w.apply(plan, only=self.random.sample(CITIES, count))  # a crash between writes
        else:
            self.w.apply(plan)
        self.watch()
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):  # with events that no pass sees
            self._happen(plan)
            self.watch()

    def watch(self) -> None:
        w = self.w
        runs = {(city, each.image) for city, each in w.cities.items()}
        self.soaked &= runs
        for key in runs | set(self.ready_since):
            each = w.cities[key[0]]
            counters = {each.updated, each.ready, each.replicas}
            ready = each.observed == each.generation and counters == {1} and each.reachable
            if key not in runs or not ready:
                self.ready_since.pop(key, None)
            elif w.time - self.ready_since.setdefault(key, w.time) >= SOAK.total_seconds():
                self.soaked.add(key)

    def _check(self, plan: RolloutPlan) -> None:
        changes = moved(plan, self.w)
        if self.w.annotations.get(compute.ANNOTATION_ROLLOUT_PAUSED):
            assert changes == {}
        newest = image_in(self.w.template)
        opened = [city for city, image in changes.items() if image == newest]
        assert len(opened) <= 1
        for city in opened:
            for earlier in CITIES[: CITIES.index(city)]:
                state = self.w.cities[earlier].state
                failed = state is not None and state.outcome == "failed"
                assert (earlier, newest) in self.soaked or (failed and "Continue" in self.w.policy)

    def _happen(self, plan: RolloutPlan) -> None:
        w, random = self.w, self.random
        city = random.choice(CITIES)
        what = random.choice(
            ["report"] * 5
            + ["time"] * 5
            + ["break", "away", "back", "wipe", "deploy", "pause", "resume", "scale", "lost state"]
            + ["restart", "clock"]
            + ["short outage"] * 4
        )
        if what == "time":
            length = timedelta(seconds=random.randint(1, 40))
            if plan.look_again is not None and random.random() < 0.4:
                length = plan.look_again
            w.pass_time(seconds=length.total_seconds())
        elif what == "restart":
            w.restart()
        elif what == "clock":
            w.now += timedelta(seconds=random.randint(-5000, 5000))
        elif what == "deploy" and random.random() < 0.3:
            w.deploy(random.choice(["v1", "v2", "v3", "v4"]))
        elif what == "pause":
            w.mark(compute.ANNOTATION_ROLLOUT_PAUSED, "me")
        elif what == "resume":
            w.annotations.pop(compute.ANNOTATION_ROLLOUT_PAUSED, None)
        elif what == "scale":
            w.generation += 1
        elif what == "short outage":
            w.cities[city] = w.cities[city].broken()
            self.watch()
            w.cities[city] = self.changed(w.cities[city], "report")
        else:
            w.cities[city] = self.changed(w.cities[city], what)

    def changed(self, each: City, what: str) -> City:
        if what == "report":
            return each.broken() if each.image in self.bad else each.rolled()
        if what == "break":
            return each.broken(self.random.choice(["InstanceCrashing", "ProvisioningInstances"]))
        if what == "away":
            return each.away()
        if what == "back":
            return replace(each, reachable=True)
        if what == "wipe":
            # The cell reports anew, with other times: for the story this is an outage.
            return replace(each.wiped(), outages=each.outages + 1)
        if what == "lost state":
            left = {k: t for k, t in each.annotations.items() if "rollout-state" not in k}
            return replace(each, annotations=left)
        return each


@given(st.sampled_from(ON_FAILURE), randoms)
@settings(max_examples=60)
def test_no_city_gets_a_template_before_the_wave_before_it_has_soaked(
    on_failure: str, random: Random
) -> None:
    """Nor more than one city at a time, nor any while the rollout is paused; whatever is lost or
    wiped, however often the process ends between two writes, whatever clocks show."""
    w = waved(on_failure)
    w.deploy("v2")
    story = Story(w, random)
    for _ in range(60):
        story.step()


@given(st.sampled_from(ON_FAILURE), st.integers(0, 60), randoms)
@settings(max_examples=25)
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
    plan = w.settle(limit=120)
    assert set(w.images().values()) == {"v5"}
    assert plan.progressing is not None
    assert plan.progressing.reason == "Complete"


@given(st.integers(0, 40), randoms)
@settings(max_examples=25)
def test_after_an_undo_every_city_runs_the_last_template_that_completed_there(
    steps: int, random: Random
) -> None:
    """Through changes that never complete, and crashes between the writes of the undo."""
    w = waved("Undo")
    good = dict.fromkeys(CITIES, "v1")
    if random.random() < 0.5:
        w.deploy("v9")
        w.settle()
        good = dict.fromkeys(CITIES, "v9")
    story = Story(w, random)
    story.bad = {"v2", "v3", "v4", "v6"}
    for _ in range(steps):
        if random.random() < 0.1:
            w.deploy(random.choice(["v2", "v3", "v4"]))
        plan = story.decide()
        w.apply(plan, only=random.sample(CITIES, random.randint(0, 3)))
        city = random.choice(CITIES)
        w.cities[city] = story.changed(w.cities[city], "report")
        story.watch()
        w.pass_time(seconds=random.randint(0, 40))
    w.deploy("v6")
    plan = w.settle(bad=sorted(story.bad), limit=120)
    assert w.images() == good
    assert plan.progressing is not None
    assert plan.progressing.reason == "RolledBack"


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


in_every_small_world = pytest.mark.parametrize(
    "stride", [pytest.param(5, id="a fifth"), pytest.param(1, id="all", marks=pytest.mark.long)]
)
"""Exhaustive, since random draws hardly ever give states to which two rules apply. The ordinary
tests take every fifth of the 6,561 worlds, in which each city has each of its states."""


def every_world(on_failure: str, stride: int = 1) -> Iterator[World]:
    text = policy(waves=[["DFW"], ["IAD"]], soak="60s", onFailure=on_failure)
    cities = list(every_city())
    for dfw, iad in islice(product(cities, repeat=2), 0, None, stride):
        found = {city: each for city, each in (("DFW", dfw), ("IAD", iad)) if each is not None}
        w = World(text, template("v2"), found, generation=3, named=("DFW", "IAD"))
        w.see()
        w.pass_time(hours=1)
        yield w


def outcome_of(w: World, city: str) -> str | None:
    """The outcome that counts for the present rollout."""
    states = [each.state for each in w.cities.values() if each.state is not None]
    newest = max((each.generation for each in states), default=0)
    state = w.cities[city].state if city in w.cities else None
    if state is None or (state.hash, state.generation) != (w.hash, newest):
        return None
    return state.outcome.value


def is_undone(w: World) -> bool:
    return "undone" in (outcome_of(w, "DFW"), outcome_of(w, "IAD"))


def done_by(plan: RolloutPlan, w: World) -> set[str]:
    """Cities that complete this rollout by the plan."""
    found = {city: find_state(_notes(plan.steps[name_of(city)])) for city in w.cities}
    return {
        city
        for city, state in found.items()
        if state is not None and (state.hash, state.outcome) == (w.hash, "done")
        if state != w.cities[city].state
    }


def _notes(step: RolloutStep) -> dict[str, str]:
    return {compute.ANNOTATION_ROLLOUT_STATE: step.state or ""}


def check_opening(w: World, plan: RolloutPlan) -> None:
    """A wave opens only when the one before it is recorded as finished, and none with another."""
    changes = moved(plan, w)
    finished = ("done", "failed") if "Continue" in w.policy else ("done",)
    if changes.get("IAD") == "v2":
        assert not is_undone(w)
    if changes.get("IAD") == "v2" and outcome_of(w, "IAD") is None:
        assert outcome_of(w, "DFW") in finished


@in_every_small_world
@pytest.mark.parametrize("on_failure", ON_FAILURE)
def test_in_every_small_world_a_wave_opens_after_the_one_before_and_an_undo_is_final(
    on_failure: str, stride: int
) -> None:
    for w in every_world(on_failure, stride):
        plan = w.plan()
        check_opening(w, plan)
        changes = moved(plan, w)
        if "v2" in {w.cities[city].image for city in changes}:
            assert is_undone(w) or on_failure == "Undo"
            assert plan.progressing is not None
            assert plan.progressing.reason == "RolledBack"
        if is_undone(w):
            w.apply(plan)
            assert images_in(w.plan(), w) == images_in(plan, w)


@in_every_small_world
def test_in_every_small_world_a_pause_stops_the_rollout_at_any_step(stride: int) -> None:
    for w in every_world("Undo", stride):
        w.mark(compute.ANNOTATION_ROLLOUT_PAUSED, "me")
        # What others have changed is put back all the same.
        assert all(outcome_of(w, city) is not None for city in moved(w.plan(), w))


@in_every_small_world
def test_in_every_small_world_a_wiped_status_opens_and_completes_nothing(stride: int) -> None:
    for w in every_world("Undo", stride):
        w.cities = {city: each.wiped() for city, each in w.cities.items()}
        plan = w.plan()
        check_opening(w, plan)
        assert is_from_before(w) or not done_by(plan, w)


@in_every_small_world
def test_in_every_small_world_a_restart_completes_no_soak_whatever_the_clock_shows(
    stride: int,
) -> None:
    for w in every_world("Undo", stride):
        w.restart()
        w.now += timedelta(days=1)
        assert is_from_before(w) or not done_by(w.plan(), w)


def is_from_before(w: World) -> bool:
    """Whether the policy is new and nothing is to be rolled."""
    return all(each.image == "v2" and each.state is None for each in w.cities.values())


def check_settled(worlds: Iterable[World]) -> None:
    for w in worlds:
        w.settle()
        w.cities = {city: each.rolled() for city, each in w.cities.items()}
        w.deploy("v3")
        w.settle()
        assert set(w.images().values()) == {"v3"}


@pytest.mark.parametrize("on_failure", ON_FAILURE)
def test_small_worlds_settle_and_the_next_change_reaches_every_city(on_failure: str) -> None:
    """Every 23rd of them; all of them take minutes."""
    check_settled(every_world(on_failure, 23))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("on_failure", ON_FAILURE)
def test_every_small_world_settles_and_the_next_change_reaches_every_city(on_failure: str) -> None:
    check_settled(every_world(on_failure))


@in_every_small_world
def test_an_empty_policy_gives_every_small_world_the_template_and_nothing_else(stride: int) -> None:
    for w in every_world("Pause", stride):
        w.policy = "{}"
        plan = w.plan()
        for step in plan.steps.values():
            assert (image_in(step.template), step.state, step.last_good) == ("v2", None, None)
        assert (plan.progressing, plan.look_again, plan.outdated) == (None, None, frozenset())
