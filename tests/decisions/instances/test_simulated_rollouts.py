"""Whole rollouts, one reconcile and one event at a time, with invariants checked at each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from datum_compute.decisions.instances.plan import Create, Delete, DeleteReason, InstancePlan
from tests.support.decisions.model import BAD, ModelDeployment, settled, slot, steps

SIZES = pytest.mark.parametrize("size", [1, 2, 3, 10, 100])
ROLL = (DeleteReason.RECREATE, DeleteReason.REPLACE_UNREADY)


class Rollout:
    """A deployment with invariants. Events come in the order in which they became due."""

    def __init__(self, world: ModelDeployment, *, serving: int = 0) -> None:
        self.world = world
        self.serving = serving
        """How many must be ready at every step."""
        self.steps = 0

    def step(self) -> InstancePlan:
        plan = self.world.plan()
        self._check(plan)
        for action in plan.actions:
            self.world.do(action)
        if due := self.world.due():
            self.world.happens(due[0])
        self.steps += 1
        return plan

    def until_still(self) -> list[InstancePlan]:
        return list(self._plans())

    def _plans(self) -> Iterator[InstancePlan]:
        for _ in range(10 * len(self.world.models) + 10 * self.world.desired + 10):
            plan = self.step()
            yield plan
            if plan.settled or (not self.world.due() and not _changes(plan)):
                return
        raise AssertionError("the rollout does not end")

    def _check(self, plan: InstancePlan) -> None:
        world = self.world
        for ordinal in range(world.desired):
            assert slot(ordinal) not in world.models or world.models[slot(ordinal)].in_slot
        assert world.ready >= self.serving, "too few serve"
        if world.desired:
            assert len(steps(plan)) <= 1, "more than one step at a time"
        for step in plan.actions:
            if isinstance(step, Create):
                below = [world.models.get(slot(each)) for each in range(step.ordinal)]
                assert all(each and each.ready for each in below), "created out of order"
                assert step.name not in world.models, "created twice"
            if isinstance(step, Delete) and step.reason in ROLL:
                inside = [world.models.get(slot(each)) for each in range(world.desired)]
                assert not any(each and each.deleting for each in inside), "two at a time"
            if isinstance(step, Delete) and step.reason is DeleteReason.SCALE_DOWN:
                inside = [world.models.get(slot(each)) for each in range(world.desired)]
                assert all(each and each.ready and each.hash == world.hash for each in inside)


def _changes(plan: InstancePlan) -> bool:
    return any(isinstance(step, Create | Delete) for step in plan.actions)


def deleted(plans: list[InstancePlan]) -> list[int | None]:
    return [step.ordinal for plan in plans for step in plan.actions if isinstance(step, Delete)]


def created(plans: list[InstancePlan]) -> list[int]:
    return [step.ordinal for plan in plans for step in plan.actions if isinstance(step, Create)]


def rolling(size: int, rolled: int) -> Rollout:
    """A roll of ``size`` Instances after so many have been replaced and serve again."""
    rollout = Rollout(ModelDeployment.of(settled(size, "old"), size), serving=size - 1)
    new = 0
    while new < rolled:
        rollout.step()
        new = sum(model.hash == "new" and model.ready for model in rollout.world.models.values())
    return rollout


@SIZES
def test_a_simulated_deployment(size: int) -> None:
    rollout = Rollout(ModelDeployment.of([], size))

    plans = rollout.until_still()

    assert rollout.world.as_wanted
    assert created(plans) == list(range(size))
    assert deleted(plans) == []


@SIZES
def test_a_simulated_roll(size: int) -> None:
    rollout = Rollout(ModelDeployment.of(settled(size, "old"), size), serving=size - 1)

    plans = rollout.until_still()

    assert rollout.world.as_wanted
    assert deleted(plans) == created(plans) == list(reversed(range(size)))
    assert rollout.steps <= 4 * size + 1


@SIZES
def test_a_bad_roll_is_fixed_by_a_good_one(size: int) -> None:
    world = ModelDeployment.of(settled(size, "old"), size, BAD)
    rollout = Rollout(world, serving=size - 1)
    rollout.until_still()
    assert [model.ordinal for model in world.models.values() if model.hash == BAD] == [size - 1]

    world.hash = "new"
    plans = rollout.until_still()

    assert world.as_wanted
    assert deleted(plans) == [size - 1, *reversed(range(size - 1))]


@SIZES
def test_a_deployment_bad_from_the_start_is_fixed_by_a_good_one(size: int) -> None:
    world = ModelDeployment.of([], size, BAD)
    rollout = Rollout(world)
    rollout.until_still()
    assert list(world.models) == [slot(0)]

    world.hash = "new"
    plans = rollout.until_still()

    assert world.as_wanted
    assert deleted(plans) == [0]
    assert created(plans) == list(range(size))


@SIZES
def test_a_scale_up_during_a_roll(size: int) -> None:
    rolled = size // 2
    rollout = rolling(size, rolled)
    rollout.world.desired = size + 2

    plans = rollout.until_still()

    assert rollout.world.as_wanted
    assert created(plans)[:2] == [size, size + 1]
    assert deleted(plans) == list(reversed(range(size - rolled)))


@SIZES
def test_a_scale_down_during_a_roll(size: int) -> None:
    rolled, left = size // 3, max(1, size // 2)
    rollout = rolling(size, rolled)
    rollout.world.desired = left
    rollout.serving = left - 1

    plans = rollout.until_still()

    assert rollout.world.as_wanted
    rolled_on = list(reversed(range(min(left, size - rolled))))
    assert deleted(plans) == [*rolled_on, *reversed(range(left, size))]


@SIZES
@pytest.mark.parametrize("lost", [0, -1], ids=["first", "last"])
def test_an_instance_lost_during_a_roll(size: int, lost: int) -> None:
    rolled = size // 2
    rollout = rolling(size, rolled)
    ordinal = range(size)[lost]
    rollout.world.is_lost(slot(ordinal))
    rollout.serving = max(0, size - 2)

    plans = rollout.until_still()

    assert rollout.world.as_wanted
    assert created(plans)[0] == ordinal
    assert deleted(plans) == [each for each in reversed(range(size - rolled)) if each != ordinal]


@SIZES
@pytest.mark.parametrize("mid_roll", [False, True])
def test_a_simulated_drain(size: int, mid_roll: bool) -> None:
    rollout = rolling(size, size // 2 if mid_roll else size)
    rollout.world.desired = rollout.serving = 0

    first, *rest = rollout.until_still()

    assert sorted(each or 0 for each in deleted([first])) == list(range(size))
    assert deleted(rest) == []
    assert rollout.world.models == {}
