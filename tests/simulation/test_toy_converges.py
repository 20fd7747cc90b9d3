"""A level-triggered controller converges whatever is missed, late, doubled or out of order."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.simulation.toy_controller import ToyBehaviour
from tests.support.simulation.toy_run import ToyRun, caught_by

QUICK = 30
"""Seeds that run with the ordinary tests; a share of a second each."""
SEEDS = 600
BATCH = 50

PLANTED = {
    "it never looks again": ToyBehaviour(resyncs=False),
    "it joins by uid across planes": ToyBehaviour(joins_by_uid=True),
}
BUDGET = 60
"""Seeds within which a planted mistake is to be caught. The first is caught by one seed in
eight, the second by one in three."""


def run(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        world = ToyRun(seed)
        world.run()
        counts += world.trace.counts
    return counts


def test_the_toy_converges_and_stops_writing_in_every_schedule() -> None:
    counts = run(range(1, QUICK + 1))

    # Every kind of fault must have happened.
    assert all(counts[kind] for kind in ("lost", "late", "double", "break", "cut-off", "kill"))


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK + 1, SEEDS, BATCH))
def test_the_toy_converges_in_many_schedules(first: int) -> None:
    run(range(first, min(first + BATCH, SEEDS + 1)))


@pytest.mark.parametrize("habits", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_bug_is_caught(habits: ToyBehaviour) -> None:
    assert caught_by(habits, range(1, BUDGET + 1)) is not None


def test_a_failing_seed_prints_how_to_reproduce_it() -> None:
    habits = ToyBehaviour(joins_by_uid=True)
    seed = caught_by(habits, range(1, BUDGET + 1))
    assert seed is not None

    with pytest.raises(AssertionError, match="settled") as caught:
        ToyRun(seed, habits).run()

    note = "".join(caught.value.__notes__)
    assert f".venv/bin/python -m tests.support.simulation.toy_run {seed} --joins-by-uid" in note
