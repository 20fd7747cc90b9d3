"""What instance control promises for arbitrary Instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances.ordered_ready import decide_instances
from datum_compute.decisions.instances.plan import (
    Create,
    Delete,
    DeleteReason,
    InstancePlan,
    PatchLabels,
    Resume,
    Suspend,
    Wait,
)
from tests.support.decisions.builders import DEPLOYMENT
from tests.support.decisions.model import (
    BAD,
    ModelDeployment,
    ModelInstance,
    decide,
    labels_for,
    settled,
    slot,
    steps,
    view,
)

Check = Callable[[ModelDeployment, InstancePlan], None]

STRAYS = [("who-0", None), ("who-1", None), ("twin-0", 0), ("twin-2", 2), ("twin-7", 7)]
"""Without an ordinal, or with that of another."""
EMPTY = 32
"""No Instance."""


def model(name: str, ordinal: int | None, state: int) -> ModelInstance:
    """Numbers below 32 encode every state: quicker to draw than its parts."""
    stale, unready, deleting, unlabelled, marked = (bool(state & bit) for bit in (1, 2, 4, 8, 16))
    hash = "old" if stale else "new"
    return ModelInstance(
        name, ordinal, hash, not unready, deleting, labelled=not unlabelled, suspended=marked
    )


def world_of(slots: list[int], strays: list[tuple[int, int]]) -> list[ModelInstance]:
    models = [model(slot(n), n, state) for n, state in enumerate(slots) if state != EMPTY]
    return models + [model(*STRAYS[which], state) for which, state in dict(strays).items()]


# Most slots are healthy, or nearly so: otherwise deployments whose first action is one of the
# last in order would hardly ever be drawn.
any_state = st.integers(0, EMPTY)
sane_state = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 18, 19, EMPTY])
no_strays: st.SearchStrategy[list[tuple[int, int]]] = st.just([])
some_strays = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 31)), min_size=1, max_size=3)
any_world = st.one_of(
    st.builds(world_of, st.lists(any_state, max_size=8), no_strays | some_strays),
    st.builds(world_of, st.lists(sane_state, max_size=8), no_strays),
    st.builds(world_of, st.lists(st.just(0), max_size=8), no_strays),
)
desired = st.integers(0, 6)
some = st.integers(1, 6)
randoms = st.randoms(use_true_random=False)


def run(
    world: ModelDeployment, random: Random, check: Check = lambda world, plan: None
) -> list[InstancePlan]:
    """Plans and events in turn until nothing changes, with a check before each plan is applied."""
    plans = []
    for _ in range(500):
        plan = world.plan()
        plans.append(plan)
        check(world, plan)
        for action in plan.actions:
            world.do(action)
        due = world.due()
        if due:
            world.happens(random.choice(due))
        elif not steps(plan):
            return plans
    raise AssertionError("the world does not settle")


@given(any_world, desired, randoms)
def test_never_more_instances_than_desired_plus_the_one_being_replaced(
    models: list[ModelInstance], wanted: int, random: Random
) -> None:
    """The one being replaced holds its slot until it is gone, so it is counted as well. Unwanted
    Instances are not counted, and their number never grows."""
    world = ModelDeployment.of(models, wanted)
    unwanted = len(models)

    def check(world: ModelDeployment, plan: InstancePlan) -> None:
        nonlocal unwanted
        creates = [step for step in plan.actions if isinstance(step, Create)]
        slots = [each for each in world.models.values() if each.in_slot]
        inside = [each for each in slots if (each.ordinal or 0) < wanted]
        assert len(inside) + len(creates) <= wanted
        assert not [step for step in creates if step.name in world.models]
        assert len(world.models) - len(inside) <= unwanted
        unwanted = len(world.models) - len(inside)

    run(world, random, check)


@given(st.integers(0, 6), desired, st.booleans(), randoms)
def test_from_a_settled_start_never_more_than_there_were_or_are_desired(
    size: int, wanted: int, roll: bool, random: Random
) -> None:
    world = ModelDeployment.of(settled(size, "old" if roll else "new"), wanted)

    def check(world: ModelDeployment, plan: InstancePlan) -> None:
        creates = sum(isinstance(step, Create) for step in plan.actions)
        assert len(world.models) + creates <= max(size, wanted)

    run(world, random, check)


@given(any_world, some, st.sampled_from(["", "CellDisconnected"]))
def test_no_successor_is_created_before_its_predecessor_is_ready(
    models: list[ModelInstance], wanted: int, hold_rolls: str
) -> None:
    named = {each.name: each for each in models}

    plan = decide(models, wanted, hold_rolls=hold_rolls)

    for step in plan.actions:
        if isinstance(step, Create):
            below = [named.get(slot(ordinal)) for ordinal in range(step.ordinal)]
            assert all(each and each.ready and not each.deleting for each in below)


@given(some, randoms)
def test_rolls_go_from_the_highest_ordinal_down_one_at_a_time(size: int, random: Random) -> None:
    world = ModelDeployment.of(settled(size, "old"), size)

    def check(world: ModelDeployment, plan: InstancePlan) -> None:
        if any(isinstance(step, Delete) for step in plan.actions):
            assert len(world.models) == size
            assert all(each.ready and not each.deleting for each in world.models.values())

    plans = run(world, random, check)

    rolled = [step.ordinal for plan in plans for step in plan.actions if isinstance(step, Delete)]
    assert rolled == list(reversed(range(size)))


@given(any_world, some)
def test_at_most_one_action_is_taken_at_a_time(models: list[ModelInstance], wanted: int) -> None:
    plan = decide(models, wanted)

    assert len(steps(plan)) <= 1
    assert bool(steps(plan)) or not (plan.queued or plan.held)


@given(any_world, some)
def test_a_slot_is_filled_again_before_the_next_one_is_emptied(
    models: list[ModelInstance], wanted: int
) -> None:
    kept = [each for each in models if each.in_slot and (each.ordinal or 0) < wanted]
    replacing = (DeleteReason.RECREATE, DeleteReason.REPLACE_UNREADY)

    plan = decide(models, wanted)

    if any(each.deleting for each in kept):
        assert not [s for s in plan.actions if isinstance(s, Delete) and s.reason in replacing]


@given(any_world, some)
def test_a_stale_instance_that_cannot_become_ready_is_replaced_first(
    models: list[ModelInstance], wanted: int
) -> None:
    kept = [each for each in models if each.in_slot and (each.ordinal or 0) < wanted]
    useless = [each for each in kept if each.hash != "new" and not each.ready]
    useless = [each for each in useless if not each.deleting]

    plan = decide(models, wanted)

    for step in plan.actions:
        if isinstance(step, Delete) and step.reason is DeleteReason.RECREATE:
            assert not useless
    if useless and all(each.in_slot for each in models) and not any(k.deleting for k in kept):
        highest = max(useless, key=lambda each: each.ordinal or 0)
        assert steps(plan) == [
            Delete(highest.name, highest.uid, highest.ordinal, DeleteReason.REPLACE_UNREADY)
        ]


@given(some, st.data(), randoms)
def test_a_good_template_replaces_one_that_cannot_become_ready(
    size: int, data: st.DataObject, random: Random
) -> None:
    world = ModelDeployment.of(settled(size, "old"), size, BAD)
    for _ in range(data.draw(st.integers(1, 12))):
        for action in world.plan().actions:
            world.do(action)
        if due := world.due():
            world.happens(random.choice(due))
    assert world.ready >= size - 1
    world.hash = "new"

    run(world, random, lambda world, plan: None)

    assert world.as_wanted


@given(any_world, some)
def test_scale_down_removes_the_highest_ordinals_only_when_the_rest_is_settled(
    models: list[ModelInstance], wanted: int
) -> None:
    slots = {each.ordinal: each for each in models if each.in_slot}

    plan = decide(models, wanted)

    for step in plan.actions:
        if isinstance(step, Delete) and step.reason is DeleteReason.SCALE_DOWN:
            stay = [slots.get(ordinal) for ordinal in range(wanted)]
            assert all(s and s.ready and s.hash == "new" and not s.deleting for s in stay)
            assert all(each.in_slot for each in models)
            assert step.ordinal == max(ordinal for ordinal in slots if ordinal is not None)
            assert step.ordinal >= wanted


@given(any_world)
def test_at_desired_zero_all_are_deleted(models: list[ModelInstance]) -> None:
    plan = decide(models, 0)

    deleted = {step.name for step in plan.actions if isinstance(step, Delete)}
    assert deleted == {each.name for each in models if not each.deleting}
    assert {step.name for step in plan.actions} == {each.name for each in models}
    assert (plan.queued, plan.held) == ((), ())


@given(any_world, some)
def test_instances_outside_the_slots_are_deleted_first(
    models: list[ModelInstance], wanted: int
) -> None:
    found = {each.name for each in models if not each.in_slot}

    plan = decide(models, wanted)

    if found:
        (step,) = steps(plan)
        assert step.name in found
        assert isinstance(step, Wait) or step.reason is DeleteReason.STRAY  # type: ignore[union-attr]
    else:
        assert not [s for s in (*plan.actions, *plan.queued) if _is_stray(s)]


def _is_stray(step: object) -> bool:
    return isinstance(step, Delete) and step.reason is DeleteReason.STRAY


@given(any_world, some, st.sampled_from(["", "CellDisconnected"]))
def test_labels_are_backfilled_regardless_of_order_and_never_count_as_an_update(
    models: list[ModelInstance], wanted: int, hold_rolls: str
) -> None:
    wrong = [
        each
        for each in models
        if each.in_slot and (each.ordinal or 0) < wanted and not each.labelled and not each.deleting
    ]

    plan = decide(models, wanted, hold_rolls=hold_rolls)
    labelled = decide(
        [replace(each, labelled=True) for each in models], wanted, hold_rolls=hold_rolls
    )

    patches = [action for action in plan.actions if isinstance(action, PatchLabels)]
    assert {(each.name, each.uid) for each in patches} == {(w.name, w.uid) for w in wrong}
    for patch in patches:
        ordinal = next(each.ordinal for each in wrong if each.name == patch.name)
        assert ordinal is not None
        assert patch.labels == labels_for(ordinal)
    assert replace(plan, actions=tuple(steps(plan))) == labelled


@given(any_world, desired, st.sampled_from(["", "CellDisconnected"]))
def test_a_plan_names_no_instance_twice(
    models: list[ModelInstance], wanted: int, hold_rolls: str
) -> None:
    """So nothing that is being deleted is to be deleted again, now or later."""
    leaving = {each.name for each in models if each.deleting}

    plan = decide(models, wanted, hold_rolls=hold_rolls)

    line = [*steps(plan), *plan.queued, *(each.step for each in plan.held)]
    assert len({step.name for step in line}) == len(line)
    assert {step.name for step in line if isinstance(step, Delete)}.isdisjoint(leaving)


@given(any_world, desired, st.sampled_from(["", "CellDisconnected"]), randoms)
def test_input_order_does_not_matter(
    models: list[ModelInstance], wanted: int, hold_rolls: str, random: Random
) -> None:
    shuffled = list(models)
    random.shuffle(shuffled)

    assert decide(shuffled, wanted, hold_rolls=hold_rolls) == decide(
        models, wanted, hold_rolls=hold_rolls
    )


def inject_failure(
    world: ModelDeployment, plan: InstancePlan, snapshots: list[list[ModelInstance]], random: Random
) -> None:
    """One failure: a plan that is partly applied, a plan from a stale view, an Instance
    that crashes or is lost."""
    failure = random.choice(["fails", "late", "crashes", "lost"])
    names = sorted(world.models)
    if failure == "fails":
        for action in plan.actions[: random.randint(0, len(plan.actions))]:
            world.do(action)
    elif failure == "late":
        for action in decide(random.choice(snapshots), world.desired, world.hash).actions:
            world.do(action)
    elif names and failure == "crashes":
        world.crashes(random.choice(names))
    elif names:
        world.is_lost(random.choice(names))


@given(any_world, desired, st.integers(0, 25), randoms)
def test_applying_plans_settles_from_any_start_with_failures_injected(
    models: list[ModelInstance], wanted: int, failures: int, random: Random
) -> None:
    world = ModelDeployment.of(models, wanted)
    snapshots = []
    for _ in range(failures):
        snapshots.append(list(world.models.values()))
        inject_failure(world, world.plan(), snapshots, random)
        if due := world.due():
            world.happens(random.choice(due))

    run(world, random)

    assert world.as_wanted


@given(any_world, desired)
def test_a_plan_is_empty_exactly_when_instances_are_settled(
    models: list[ModelInstance], wanted: int
) -> None:
    world = ModelDeployment.of(models, wanted)

    assert (world.plan() == InstancePlan()) == world.as_wanted
    assert world.plan().settled == world.as_wanted
    assert decide(settled(wanted), wanted) == InstancePlan()


@given(any_world, desired)
def test_while_stopped_every_instance_is_marked_and_nothing_else_happens(
    models: list[ModelInstance], wanted: int
) -> None:
    plan = decide(models, wanted, suspended=True)

    if wanted == 0:
        assert plan == decide(models, 0)
        return
    marked = {action.name for action in plan.actions if isinstance(action, Suspend)}
    assert marked == {each.name for each in models if not each.suspended and not each.deleting}
    assert (steps(plan), plan.queued, plan.held) == ([], (), ())


@given(any_world, some, st.sampled_from(["", "CellDisconnected"]))
def test_no_instance_is_started_before_those_below_are_ready(
    models: list[ModelInstance], wanted: int, hold_rolls: str
) -> None:
    named = {each.name: each for each in models}

    plan = decide(models, wanted, hold_rolls=hold_rolls)

    for step in steps(plan):
        if isinstance(step, Resume):
            assert named[step.name].suspended
            below = [named.get(slot(ordinal)) for ordinal in range(step.ordinal)]
            # One of an older template is replaced, not started.
            current = [b for b in below if b is None or b.hash == "new" or hold_rolls]
            assert all(b and not (b.deleting or b.suspended) for b in current)
            assert all(b and b.ready for b in below if b is None or b.hash == "new")


@given(any_world, some, st.booleans(), randoms)
def test_a_stop_and_a_start_end_where_a_start_alone_would(
    models: list[ModelInstance], wanted: int, roll: bool, random: Random
) -> None:
    world = ModelDeployment.of(models, wanted)
    world.suspended = True
    run(world, random)
    assert world.ready == 0
    kept = {(each.name, each.uid) for each in world.models.values()}
    world.hash = "newer" if roll else "new"
    world.suspended = False

    run(world, random)

    assert world.as_wanted
    if all(each.in_slot and each.hash == "new" for each in models) and not roll:
        inside = {each for each in kept if each[0] in world.models}
        assert inside <= {(each.name, each.uid) for each in world.models.values()}


def health_only(view: compute.Instance) -> Any:
    """An object with only the fields of ``plan_key``."""
    name, uid, labels, deleting, template_hash, ready, suspended = view.plan_key
    metadata = SimpleNamespace(name=name, uid=uid, labels=labels, deleting=deleting)
    return SimpleNamespace(
        metadata=metadata, template_hash=template_hash, ready=ready, suspended=suspended
    )


@given(any_world, desired, st.sampled_from(["", "CellDisconnected"]))
def test_only_the_state_of_an_instance_matters(
    models: list[ModelInstance], wanted: int, hold_rolls: str
) -> None:
    views = [view(each) for each in models]

    plans = [
        decide_instances(
            deployment_name=DEPLOYMENT,
            desired=wanted,
            template_hash="new",
            labels_for=labels_for,
            instances=given,
            hold_rolls=hold_rolls,
        )
        for given in (views, [health_only(each) for each in views])
    ]

    assert plans[0] == plans[1]


SMALL_STATES = (*range(8), 16, 17, 18, 19)
"""Every state of a labelled Instance that is not marked or not being deleted."""


def worlds(slots: int, states: Sequence[int], strays: bool) -> Iterator[list[ModelInstance]]:
    """All Instances of this many slots, alone or with each of the strays."""
    others: list[list[tuple[int, int]]] = [[]]
    if strays:
        others += [[(which, 0)] for which in range(len(STRAYS))]
    for drawn in product([*states, EMPTY], repeat=slots):
        for other in others:
            yield world_of(list(drawn), other)


@pytest.mark.parametrize(
    "promise",
    [
        test_at_most_one_action_is_taken_at_a_time,
        test_a_slot_is_filled_again_before_the_next_one_is_emptied,
        test_a_stale_instance_that_cannot_become_ready_is_replaced_first,
        test_scale_down_removes_the_highest_ordinals_only_when_the_rest_is_settled,
        test_instances_outside_the_slots_are_deleted_first,
        test_a_plan_is_empty_exactly_when_instances_are_settled,
        test_while_stopped_every_instance_is_marked_and_nothing_else_happens,
    ],
    ids=lambda promise: promise.__name__.removeprefix("test_"),
)
def test_rules_hold_for_every_small_deployment(promise: Any) -> None:
    """Exhaustive, since random draws hardly ever give Instances to which two rules apply."""
    for models in worlds(3, SMALL_STATES, strays=False):
        for wanted in (1, 2, 3):
            promise.hypothesis.inner_test(models, wanted)


@pytest.mark.parametrize(
    "promise",
    [
        test_no_successor_is_created_before_its_predecessor_is_ready,
        test_a_plan_names_no_instance_twice,
        test_no_instance_is_started_before_those_below_are_ready,
        test_labels_are_backfilled_regardless_of_order_and_never_count_as_an_update,
    ],
    ids=lambda promise: promise.__name__.removeprefix("test_"),
)
@pytest.mark.parametrize("hold_rolls", ["", "CellDisconnected"])
def test_rules_hold_for_every_small_deployment_connected_or_not(
    promise: Any, hold_rolls: str
) -> None:
    for models in worlds(2, (*range(16), *SMALL_STATES[8:]), strays=True):
        for wanted in (1, 2):
            promise.hypothesis.inner_test(models, wanted, hold_rolls)


def test_every_small_deployment_settles() -> None:
    random = Random(0)
    for models in worlds(2, SMALL_STATES, strays=True):
        for wanted in (0, 1, 3):
            world = ModelDeployment.of(models, wanted)
            run(world, random)
            assert world.as_wanted
