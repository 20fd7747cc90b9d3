"""A power cut at one commit, for all processes at once.

Only the store is left: no task is cancelled, no ``finally`` runs, and requests in flight never
arrive. The next run has nothing but the file.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from datum_compute.testing import loop
from datum_compute.testing.environment import SimulatedEnvironment
from datum_compute.testing.loop import VirtualLoop
from tests.support.simulation.platform import PowerCut


@dataclass
class PowerSupply:
    cut_at: int = 0
    """The commit at which the power is cut; 0 for never."""
    stored: bool = False
    """Whether that commit is stored, without a reply."""
    commits: int = 0

    def supply(self, env: SimulatedEnvironment) -> None:
        env.on_fault("store.after-commit" if self.stored else "store.before-commit", self._count)

    def _count(self) -> None:
        self.commits += 1
        if self.commits == self.cut_at:
            raise PowerCut


def random_power_supplies(seed: int, share: float) -> list[PowerSupply]:
    """The runs of a seed: in this share of seeds there are two, and in others one."""
    chance = Random(f"power {seed}")
    if chance.random() >= share:
        return [PowerSupply()]
    cut_at = chance.randint(1, chance.choice((60, 300, 900)))
    return [PowerSupply(cut_at, chance.random() < 0.5), PowerSupply()]


def run_until_power_cut(run: Coroutine[Any, Any, None], power: PowerSupply, seed: int) -> bool:
    """Whether a run ended before the power cut."""
    if not power.cut_at:
        loop.run(run, seed=seed)
        return True
    world = VirtualLoop(seed)
    try:
        world.run_until_complete(run)
    except PowerCut:
        return False
    finally:
        asyncio.set_event_loop(None)
        world.close()
    return True


def discard_dead_tasks(let_go: Callable[[], None]) -> None:
    """Free what the processes held, without the warnings of their unfinished coroutines."""
    complain = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            let_go()
            gc.collect()
    finally:
        sys.unraisablehook = complain
