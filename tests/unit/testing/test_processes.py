"""A simulated process that crashes runs no cleanup, and restarts without memory."""

from __future__ import annotations

import asyncio

import pytest

from datum_compute.client import errors
from datum_compute.client.transport import HttpRequest
from datum_compute.env import Environment
from datum_compute.runtime.tasks import TaskGroup
from datum_compute.testing.environment import START, SimulatedEnvironment, SkewedEnvironment
from datum_compute.testing.network import SimulatedNetwork
from datum_compute.testing.processes import Process
from tests.support.client.recording_server import RecordingServer


class Counting:
    """Sends a number every second, and another message when it is stopped."""

    def __init__(self, network: SimulatedNetwork, server: RecordingServer) -> None:
        self._transport = network.transport("counting", "hub", server)
        self._ready = asyncio.Event()

    async def run(self) -> None:
        number = 0
        try:
            while True:
                number += 1
                await self._transport.send(HttpRequest("POST", f"/{number}"))
                self._ready.set()
                await asyncio.sleep(1)
        finally:
            await self._send_last()

    async def _send_last(self) -> None:
        try:
            await self._transport.send(HttpRequest("POST", "/goodbye"))
        except errors.TransportFailure:
            pass

    async def wait_ready(self) -> None:
        await self._ready.wait()


async def test_a_crash_runs_no_cleanup_and_keeps_no_memory() -> None:
    server = RecordingServer()
    env = SimulatedEnvironment()
    async with SimulatedNetwork(env) as network, TaskGroup("world") as tasks:
        process = Process("counting", lambda _: Counting(network, server), env, network)
        running = tasks.start(process.run(), name="counting")
        await process.wait_ready()
        await asyncio.sleep(2.5)
        process.crash(down_for=10)
        await asyncio.sleep(9)
        assert server.arrived == ["POST /1", "POST /2", "POST /3"]
        await process.wait_ready()
        await tasks.stop(running)

    assert process.lives == 2
    assert server.arrived == ["POST /1", "POST /2", "POST /3", "POST /1", "POST /goodbye"]


async def test_a_failing_program_fails_the_simulation() -> None:
    class Failing:
        async def run(self) -> None:
            raise ValueError("a mistake in the program")

        async def wait_ready(self) -> None: ...

    env = SimulatedEnvironment()
    with pytest.raises(ValueError, match="a mistake"):
        async with SimulatedNetwork(env) as network:
            await Process("failing", lambda _: Failing(), env, network).run()


async def test_a_skewed_clock_has_an_offset_and_drift_and_shares_the_rest() -> None:
    env = SimulatedEnvironment(5)
    skewed: Environment = SkewedEnvironment(env, offset=-60, rate=2.0)
    assert (skewed.now() - START).total_seconds() == -60
    await asyncio.sleep(100)

    assert (env.now() - START).total_seconds() == 100
    assert (skewed.now() - START).total_seconds() == 140
    assert skewed.random("x") is env.random("x")
    skewed.fault("somewhere")
    assert env.fault_counts["somewhere"] == 1
