"""Instance control in a toy world: whatever it starts from, what holds at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datum_compute.api.compute import v1alpha as compute
from datum_compute.decisions.instances import decide_instances
from datum_compute.decisions.plan import Create, Delete, DeleteReason, PatchLabels, Plan, Wait
from tests.decisions.builders import DEPLOYMENT, instance


@dataclass(frozen=True)
class Toy:
    """An Instance of the toy world."""

    name: str
    ordinal: int | None
    hash: str = "new"
    ready: bool = True
    deleting: bool = False
    labelled: bool = True

    def view(self) -> compute.Instance:
        labels = {}
        if self.labelled and self.ordinal is not None:
            labels = labels_for(self.ordinal)
        return instance(
            self.ordinal,
            name=self.name,
            hash=self.hash,
            ready=self.ready,
            deleting=self.deleting,
            labels=labels,
        )


def labels_for(ordinal: int) -> dict[str, str]:
    return {compute.LABEL_INSTANCE_INDEX: str(ordinal), compute.LABEL_CITY_CODE: "DFW"}


def decide(toys: Sequence[Toy], desired: int, hash: str = "new", *, hold_rolls: str = "") -> Plan:
    return decide_instances(
        deployment_name=DEPLOYMENT,
        desired=desired,
        template_hash=hash,
        labels_for=labels_for,
        instances=[toy.view() for toy in toys],
        hold_rolls=hold_rolls,
    )


@dataclass
class World:
    """Does what a plan says, and lets things become ready and go, one event at a time."""

    toys: dict[str, Toy]
    desired: int
    hash: str = "new"
    seen: list[Plan] = field(default_factory=list)

    def step(self, random: Random, check: Callable[[World, Plan], None]) -> bool:
        """One pass of the controller, then one event; false when all is still."""
        plan = decide(list(self.toys.values()), self.desired, self.hash)
        check(self, plan)
        self.seen.append(plan)
        for action in plan.now:
            self._do(action)
        events = [toy for toy in self.toys.values() if toy.deleting or not toy.ready]
        if events:
            toy = random.choice(events)
            if toy.deleting:
                del self.toys[toy.name]
            else:
                self.toys[toy.name] = replace(toy, ready=True)
        return bool(plan.now or plan.held_back or events)

    def _do(self, action: Create | Delete | Wait | PatchLabels) -> None:
        match action:
            case Create(ordinal=ordinal, name=name):
                assert name not in self.toys, "an Instance of this name still exists"
                self.toys[name] = Toy(name, ordinal, self.hash, ready=False)
            case Delete(name=name):
                self.toys[name] = replace(self.toys[name], deleting=True)
            case PatchLabels(name=name):
                self.toys[name] = replace(self.toys[name], labelled=True)
            case Wait(name=name):
                assert name in self.toys

    def run(self, random: Random, check: Callable[[World, Plan], None]) -> None:
        for _ in range(500):
            if not self.step(random, check):
                return
        raise AssertionError("the world does not settle")

    @property
    def as_wanted(self) -> bool:
        wanted = {f"{DEPLOYMENT}-{ordinal}" for ordinal in range(self.desired)}
        return set(self.toys) == wanted and all(
            toy.ready and toy.hash == self.hash and not toy.deleting and toy.labelled
            for toy in self.toys.values()
        )


def toy(ordinal: int | None, number: int, flags: tuple[bool, bool, bool, bool]) -> Toy:
    name = f"{DEPLOYMENT}-{ordinal}" if ordinal is not None else f"stray-{number}"
    stale, ready, deleting, labelled = flags
    return Toy(name, ordinal, "old" if stale else "new", ready, deleting, labelled)


flags = st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans())
any_world = st.lists(st.tuples(st.none() | st.integers(0, 7), flags), max_size=9).map(
    lambda drawn: list(
        {
            each.name: each
            for each in (toy(ordinal, n, flag) for n, (ordinal, flag) in enumerate(drawn))
        }.values()
    )
)
desired = st.integers(0, 6)
settled_size = st.integers(0, 6)
randoms = st.randoms(use_true_random=False)


def settled(size: int, hash: str) -> dict[str, Toy]:
    toys = [Toy(f"{DEPLOYMENT}-{ordinal}", ordinal, hash) for ordinal in range(size)]
    return {each.name: each for each in toys}


def nothing(world: World, plan: Plan) -> None:
    """No further promise."""


@given(any_world, desired, randoms)
def test_it_settles_from_any_start(toys: list[Toy], wanted: int, random: Random) -> None:
    world = World({each.name: each for each in toys}, wanted)

    world.run(random, nothing)

    assert world.as_wanted


@given(any_world, desired, randoms)
def test_the_order_of_the_input_does_not_matter(
    toys: list[Toy], wanted: int, random: Random
) -> None:
    shuffled = list(toys)
    random.shuffle(shuffled)

    assert decide(shuffled, wanted) == decide(toys, wanted)


def standing_only(view: compute.Instance) -> Any:
    """Something that has what an Instance's standing says, and nothing else to look at."""
    name, uid, labels, deleting, template_hash, ready = view.standing
    metadata = SimpleNamespace(name=name, uid=uid, labels=labels, deleting=deleting)
    return SimpleNamespace(metadata=metadata, template_hash=template_hash, ready=ready)


@given(any_world, desired, st.sampled_from(["", "CellDisconnected"]))
def test_nothing_but_the_standing_of_an_instance_counts(
    toys: list[Toy], wanted: int, hold_rolls: str
) -> None:
    views = [toy.view() for toy in toys]

    plans = [
        decide_instances(
            deployment_name=DEPLOYMENT,
            desired=wanted,
            template_hash="new",
            labels_for=labels_for,
            instances=given,
            hold_rolls=hold_rolls,
        )
        for given in (views, [standing_only(view) for view in views])
    ]

    assert plans[0] == plans[1]


@given(any_world, st.integers(1, 6))
def test_one_step_at_a_time(toys: list[Toy], wanted: int) -> None:
    plan = decide(toys, wanted)

    steps = [action for action in plan.now if not isinstance(action, PatchLabels)]
    assert len(steps) <= 1
    assert bool(steps) or not plan.held_back


@given(any_world)
def test_at_zero_nobody_waits_for_another(toys: list[Toy]) -> None:
    plan = decide(toys, 0)

    deleted = {action.name for action in plan.now if isinstance(action, Delete)}
    assert deleted == {each.name for each in toys if not each.deleting}
    assert plan.held_back == ()


@given(settled_size, desired, st.booleans(), randoms)
def test_never_more_than_there_were_or_are_wanted(
    size: int, wanted: int, new_template: bool, random: Random
) -> None:
    """A replaced Instance keeps its slot until it is gone, so a roll adds none."""
    world = World(settled(size, "old" if new_template else "new"), wanted)

    def check(world: World, plan: Plan) -> None:
        creating = sum(isinstance(action, Create) for action in plan.now)
        assert len(world.toys) + creating <= max(size, world.desired)

    world.run(random, check)


@given(settled_size, st.integers(1, 6), st.booleans(), randoms)
def test_nobody_is_created_before_those_below_are_ready(
    size: int, wanted: int, new_template: bool, random: Random
) -> None:
    world = World(settled(size, "old" if new_template else "new"), wanted)

    def check(world: World, plan: Plan) -> None:
        for action in plan.now:
            if isinstance(action, Create):
                below = [f"{DEPLOYMENT}-{ordinal}" for ordinal in range(action.ordinal)]
                assert all(name in world.toys and world.toys[name].ready for name in below)

    world.run(random, check)


@given(any_world, st.integers(1, 6), st.sampled_from(["", "CellDisconnected"]))
def test_whatever_the_world_nobody_is_created_above_one_that_is_not_ready(
    toys: list[Toy], wanted: int, hold_rolls: str
) -> None:
    named = {each.name: each for each in toys}

    plan = decide(toys, wanted, hold_rolls=hold_rolls)

    for action in plan.now:
        if isinstance(action, Create):
            below = [f"{DEPLOYMENT}-{ordinal}" for ordinal in range(action.ordinal)]
            assert all(name in named and named[name].ready for name in below)


@given(st.integers(1, 6), randoms)
def test_a_roll_takes_one_at_a_time_from_the_top(size: int, random: Random) -> None:
    world = World(settled(size, "old"), size)

    def check(world: World, plan: Plan) -> None:
        for action in plan.now:
            if isinstance(action, Delete):
                assert all(each.ready and not each.deleting for each in world.toys.values())
                assert len(world.toys) == size

    world.run(random, check)

    rolled = [
        action.ordinal for plan in world.seen for action in plan.now if isinstance(action, Delete)
    ]
    assert rolled == list(reversed(range(size)))


@given(any_world, st.integers(1, 6))
def test_nobody_who_serves_is_replaced_while_one_who_does_not_can_be(
    toys: list[Toy], wanted: int
) -> None:
    kept = [each for each in toys if each.ordinal is not None and each.ordinal < wanted]
    stale_unready = [
        each for each in kept if each.hash != "new" and not each.ready and not each.deleting
    ]

    plan = decide(toys, wanted)

    for action in plan.now:
        if isinstance(action, Delete) and action.reason is DeleteReason.RECREATE:
            assert not stale_unready


@given(any_world, st.integers(1, 6))
def test_removal_waits_until_what_stays_is_ready_and_current(toys: list[Toy], wanted: int) -> None:
    kept = {each.ordinal: each for each in toys if each.ordinal is not None}

    plan = decide(toys, wanted)

    for action in plan.now:
        if isinstance(action, Delete) and action.reason is DeleteReason.SCALE_DOWN:
            stays = [kept.get(ordinal) for ordinal in range(wanted)]
            assert all(s and s.ready and s.hash == "new" and not s.deleting for s in stays)
            above = [each for ordinal, each in kept.items() if ordinal > (action.ordinal or 0)]
            assert above == []


@given(any_world, st.integers(1, 6))
def test_strays_go_before_anybody_else_moves(toys: list[Toy], wanted: int) -> None:
    strays = {each.name for each in toys if each.ordinal is None}

    plan = decide(toys, wanted)

    steps = [action for action in plan.now if isinstance(action, Create | Delete | Wait)]
    if strays:
        assert [step.name in strays for step in steps] == [True]


@given(any_world, st.integers(1, 6))
def test_every_wrong_label_in_range_is_patched_at_once(toys: list[Toy], wanted: int) -> None:
    wrong = {
        each.name
        for each in toys
        if each.ordinal is not None
        and each.ordinal < wanted
        and not each.labelled
        and not each.deleting
    }

    plan = decide(toys, wanted)

    assert {action.name for action in plan.now if isinstance(action, PatchLabels)} == wrong


@given(settled_size)
def test_a_settled_world_needs_nothing(size: int) -> None:
    assert decide(list(settled(size, "new").values()), size) == Plan()
