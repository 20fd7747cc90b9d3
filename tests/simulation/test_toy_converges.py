"""Whatever is missed, late, doubled or out of order, a level-triggered controller gets there."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.toy import Habits
from tests.simulation.world import World, caught_by

QUICK = 30
"""Seeds that run with the ordinary tests; a share of a second each."""
SEEDS = 600
BATCH = 50

PLANTED = {
    "it never looks again": Habits(looks_again=False),
    "it joins by uid across planes": Habits(joins_by_uid=True),
}
BUDGET = 60
"""Seeds within which a planted mistake is to be caught. The first is caught by one seed in
eight, the second by one in three."""


def run(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        world = World(seed)
        world.run()
        counts += world.trace.counts
    return counts


def test_it_converges_and_falls_silent_in_every_schedule() -> None:
    counts = run(range(1, QUICK + 1))

    # A campaign in which some fault never happened shows nothing about it.
    assert all(counts[kind] for kind in ("lost", "late", "double", "break", "cut-off", "kill"))


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK + 1, SEEDS, BATCH))
def test_it_converges_in_many_more_schedules(first: int) -> None:
    run(range(first, min(first + BATCH, SEEDS + 1)))


@pytest.mark.parametrize("habits", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_mistake_is_caught(habits: Habits) -> None:
    assert caught_by(habits, range(1, BUDGET + 1)) is not None


def test_a_failing_seed_tells_how_to_see_it_again() -> None:
    habits = Habits(joins_by_uid=True)
    seed = caught_by(habits, range(1, BUDGET + 1))
    assert seed is not None

    with pytest.raises(AssertionError, match="settled") as caught:
        World(seed, habits).run()

    note = "".join(caught.value.__notes__)
    assert f".venv/bin/python -m tests.simulation.world {seed} --joins-by-uid" in note
