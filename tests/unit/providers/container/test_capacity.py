"""How often the engine is asked for what its machine has, on a double of the engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from datum_compute.api.compute import v1alpha as compute
from datum_compute.providers.container.capacity import EngineCapacity
from datum_compute.providers.container.engine import ContainerEngine, EngineUnreachable
from datum_compute.providers.errors import InsufficientCapacity
from datum_compute.providers.protocol import InstanceTarget
from tests.support.simulation.platform import workload


@dataclass
class Machine:
    """An engine that answers after a quarter of a second, and is away for the first ``failures``
    questions."""

    cores: int
    failures: int = 0
    questions: list[float] = field(default_factory=list)

    async def info(self) -> dict[str, Any]:
        self.questions.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.25)
        if len(self.questions) <= self.failures:
            raise EngineUnreachable("no answer")
        return {"NCPU": self.cores, "MemTotal": 2**40}


def target(number: int) -> InstanceTarget:
    spec = workload("acme/web:1", 1)["spec"]["template"]["spec"]
    body = {"metadata": {"name": f"web-{number}", "uid": str(number)}, "spec": spec}
    return InstanceTarget("dfw", msgspec.convert(body, compute.Instance))


def capacity_of(machine: Machine) -> EngineCapacity:
    return EngineCapacity(lambda: cast(ContainerEngine, machine))


async def test_instances_that_start_together_ask_the_engine_once() -> None:
    machine = Machine(cores=8)
    capacity = capacity_of(machine)
    await asyncio.gather(*(capacity.check(target(number)) for number in range(50)))
    assert len(machine.questions) == 1


async def test_an_engine_that_did_not_answer_is_asked_again() -> None:
    machine = Machine(cores=8, failures=1)
    capacity = capacity_of(machine)
    with pytest.raises(EngineUnreachable):
        await capacity.check(target(0))
    await capacity.check(target(0))
    assert len(machine.questions) == 2


async def test_an_instance_larger_than_the_machine_is_refused_with_both_sizes() -> None:
    machine = Machine(cores=0)
    await capacity_of(machine).check(target(0))  # not known: left to the engine

    class Small(Machine):
        async def info(self) -> dict[str, Any]:
            return {"NCPU": 64, "MemTotal": 2**20}

    with pytest.raises(InsufficientCapacity, match="and this machine has 1"):
        await capacity_of(Small(cores=64)).check(target(0))
