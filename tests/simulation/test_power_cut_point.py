"""Power fails at the chosen commit, for every task at once."""

from __future__ import annotations

import asyncio

from datum_compute.testing.environment import SimulatedEnvironment
from tests.support.simulation.power_cut import (
    PowerSupply,
    discard_dead_tasks,
    random_power_supplies,
    run_until_power_cut,
)


def run_commits(power: PowerSupply) -> tuple[bool, list[str]]:
    """Whether a run of three commits ended, and what it did."""
    env, done = SimulatedEnvironment(), list[str]()
    power.supply(env)

    async def work() -> None:
        for number in range(3):
            await asyncio.sleep(1)
            env.fault("store.before-commit")
            done.append(f"commit {number}")
            env.fault("store.after-commit")

    async def run() -> None:
        other = asyncio.create_task(asyncio.sleep(2.5))
        other.add_done_callback(lambda _: done.append("another task"))
        await work()

    whole = run_until_power_cut(run(), power, 1)
    discard_dead_tasks(env.fault_counts.clear)
    return whole, done


def test_power_is_cut_before_or_after_the_commit() -> None:
    assert run_commits(PowerSupply(2)) == (False, ["commit 0"])
    assert run_commits(PowerSupply(2, stored=True)) == (False, ["commit 0", "commit 1"])


def test_without_a_cut_a_run_ends_normally() -> None:
    every = ["commit 0", "commit 1", "another task", "commit 2"]
    assert run_commits(PowerSupply()) == run_commits(PowerSupply(9)) == (True, every)


def test_a_share_of_all_seeds_has_a_power_cut() -> None:
    supplies = [random_power_supplies(seed, 0.3) for seed in range(200)]

    assert 40 < sum(len(each) == 2 for each in supplies) < 80
    assert all(each[-1].cut_at == 0 for each in supplies)
    assert random_power_supplies(17, 1.0) == random_power_supplies(17, 1.0)
