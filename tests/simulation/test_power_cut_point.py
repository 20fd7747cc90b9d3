"""Power goes at the commit it was drawn for, for every task at once."""

from __future__ import annotations

import asyncio

from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.simulation.power_cut import (
    PowerSupply,
    discard_dead_tasks,
    random_power_supplies,
    run_until_power_cut,
)


def lived(power: PowerSupply) -> tuple[bool, list[str]]:
    """Whether a life of three commits came to its end, and what it did."""
    env, done = SimulatedEnvironment(), list[str]()
    power.supply(env)

    async def work() -> None:
        for number in range(3):
            await asyncio.sleep(1)
            env.fault("store.before-commit")
            done.append(f"commit {number}")
            env.fault("store.after-commit")

    async def life() -> None:
        other = asyncio.create_task(asyncio.sleep(2.5))
        other.add_done_callback(lambda _: done.append("another task"))
        await work()

    whole = run_until_power_cut(life(), power, 1)
    discard_dead_tasks(env.fault_counts.clear)
    return whole, done


def test_power_is_cut_before_or_after_the_commit() -> None:
    assert lived(PowerSupply(2)) == (False, ["commit 0"])
    assert lived(PowerSupply(2, stored=True)) == (False, ["commit 0", "commit 1"])


def test_without_a_cut_a_run_ends_normally() -> None:
    every = ["commit 0", "commit 1", "another task", "commit 2"]
    assert lived(PowerSupply()) == lived(PowerSupply(9)) == (True, every)


def test_a_share_of_all_seeds_has_two_runs() -> None:
    lives = [random_power_supplies(seed, 0.3) for seed in range(200)]

    assert 40 < sum(len(each) == 2 for each in lives) < 80
    assert all(each[-1].cut_at == 0 for each in lives)
    assert random_power_supplies(17, 1.0) == random_power_supplies(17, 1.0)
